package processprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen/process"
)

// bound is where a bucket that we show ends: behind bucket index of the pool's
// histogram, which counts durations up to and including le.
type bound struct {
	index int
	le    float64 // in seconds
}

// bounds picks, of the pool's 160 buckets, those that end next above 1 and 5 of
// each decade. As both kinds of buckets then end at the same durations, nothing is
// interpolated, and every count is exact.
var bounds = sync.OnceValue(func() []bound {
	var picked []bound
	i := 0
	for decade := time.Microsecond; decade <= 100*time.Second; decade *= 10 {
		for _, want := range []time.Duration{decade, 5 * decade} {
			for longest(i) < want {
				i++
			}
			picked = append(picked, bound{i, longest(i).Seconds()})
		}
	}
	return picked[:len(picked)-1] // 500 seconds is beyond what is of use
})

// longest is the largest duration that bucket i counts.
func longest(i int) time.Duration {
	var h process.Histogram
	return h.Bound(i) - time.Nanosecond
}

// histogram shows h with the bounds above.
func histogram(d *prometheus.Desc, h *process.Histogram, labels ...string) prometheus.Metric {
	counts, _ := cumulate(h)
	return prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), counts, labels...)
}

// cumulate gives how many durations of h are not longer than each bound, and how
// many are not longer than the last one.
func cumulate(h *process.Histogram) (counts map[float64]uint64, total uint64) {
	counts = make(map[float64]uint64, len(bounds()))
	next := 0
	for _, b := range bounds() {
		for ; next <= b.index; next++ {
			total += h.Buckets[next]
		}
		counts[b.le] = total
	}
	return counts, total
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
