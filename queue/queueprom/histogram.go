package queueprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen/queue"
)

// bound is where a bucket that we show ends: behind bucket index of the queue's
// histogram, which counts durations up to and including le.
type bound struct {
	index int
	le    float64 // in seconds
}

const (
	shortest = 100 * time.Microsecond
	longest  = 100_000 * time.Second // more than a day
)

// bounds picks, of the queue's 192 buckets, those that end next above 1 and 5 of
// each decade. As both kinds of buckets then end at the same durations, nothing is
// interpolated, and every count is exact.
var bounds = sync.OnceValue(func() []bound {
	var h queue.Histogram
	last := func(i int) time.Duration { return h.Bound(i) - time.Nanosecond }
	var picked []bound
	i := 0
	for decade := shortest; decade <= longest; decade *= 10 {
		for _, want := range []time.Duration{decade, 5 * decade} {
			for last(i) < want {
				i++
			}
			picked = append(picked, bound{i, last(i).Seconds()})
		}
	}
	return picked[:len(picked)-1] // five days are beyond what is of use
})

// histogram shows h with the bounds above.
func histogram(d *prometheus.Desc, h *queue.Histogram, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), cumulate(h), labels...)
}

// cumulate gives how many durations of h are not longer than each bound.
func cumulate(h *queue.Histogram) map[float64]uint64 {
	counts := make(map[float64]uint64, len(bounds()))
	next, total := 0, uint64(0)
	for _, b := range bounds() {
		for ; next <= b.index; next++ {
			total += h.Buckets[next]
		}
		counts[b.le] = total
	}
	return counts
}
