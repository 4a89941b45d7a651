package processprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen/internal/durations"
	"github.com/bullpen-run/bullpen/process"
)

const (
	shortest = time.Microsecond
	longest  = 100 * time.Second
)

// histogram shows h with the edges 1, 2.5 and 5 of each decade, which are also edges of
// its buckets.
func histogram(d *prometheus.Desc, h *process.Histogram, labels ...string) prometheus.Metric {
	counts := durations.Cumulate(h.Buckets[:], shortest, longest)
	return prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), counts, labels...)
}

// merge adds the durations of h to those of sum.
func merge(sum, h *process.Histogram) {
	sum.Count += h.Count
	sum.Sum += h.Sum
	sum.Max = max(sum.Max, h.Max)
	for i, n := range h.Buckets {
		sum.Buckets[i] += n
	}
}
