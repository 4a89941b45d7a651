package queueprom

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/metriclist"
)

// TestHistogram wants each duration under every edge that is not shorter, and edges that
// are round numbers of seconds, from 100 microseconds to more than a day.
func TestHistogram(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{0, 90 * time.Microsecond, time.Millisecond, time.Millisecond + 1, 2 * time.Second, 26 * time.Hour, 100 * time.Hour}
	h := bullpen.Histogram{Count: uint64(len(durations))}
	for _, d := range durations {
		h.Buckets[index(&h, d)]++
	}
	buckets := metriclist.Buckets(t, histogram(late, &h))
	if first, last := buckets[0].Edge, buckets[len(buckets)-1].Edge; len(buckets) != 28 || first != 1e-4 || last != 1e5 {
		t.Errorf("%d edges from %v to %v, want 1, 2.5 and 5 of each decade from 0.0001 to 100000", len(buckets), first, last)
	}
	for _, b := range buckets {
		n := uint64(0)
		for _, d := range durations {
			if float64(d) <= b.Edge*1e9 {
				n++
			}
		}
		if b.Count != n {
			t.Errorf("%d are not longer than %v s, want %d", b.Count, b.Edge, n)
		}
	}
}

// index is the bucket of a duration.
func index(h *bullpen.Histogram, d time.Duration) int {
	i := 0
	for h.Bound(i) < d {
		i++
	}
	return i
}
