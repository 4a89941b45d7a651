package poolprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/durations"
)

const (
	shortest = time.Microsecond
	longest  = 100 * time.Second
)

// histogram exports h with the edges 1, 2.5 and 5 of each decade, which are also edges of
// its buckets.
func histogram(d *prometheus.Desc, h *bullpen.Histogram, labels ...string) prometheus.Metric {
	counts := durations.Cumulate(h.Buckets[:], shortest, longest)
	return prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), counts, labels...)
}
