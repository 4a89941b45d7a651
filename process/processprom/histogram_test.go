package processprom

import (
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/metriclist"
)

// TestHistogram has one duration in each bucket of two pools, which are shown together:
// twice as many as there are buckets up to an edge are not longer than it, and the edges
// are round numbers of seconds, from a microsecond to 100 seconds.
func TestHistogram(t *testing.T) {
	t.Parallel()
	var h bullpen.Histogram
	for i := range h.Buckets {
		h.Buckets[i]++
		h.Count++
	}
	both := h.Plus(&h)
	buckets := metriclist.Buckets(t, histogram(budgetWait, &both, "budget"))
	first, last := buckets[0], buckets[len(buckets)-1]
	if len(buckets) != 25 || first.Edge != 1e-6 || last.Edge != 100 {
		t.Errorf("%d edges from %v to %v, want 1, 2.5 and 5 of each decade from 1e-06 to 100", len(buckets), first.Edge, last.Edge)
	}
	i := 0
	for _, b := range buckets {
		for h.Bound(i).Seconds() <= b.Edge {
			i++
		}
		if b.Count != 2*uint64(i) || h.Bound(i-1).Seconds() != b.Edge {
			t.Errorf("%d are not longer than %v s, want %d: bucket %d ends with %v", b.Count, b.Edge, 2*i, i-1, h.Bound(i-1))
		}
	}
	if both.Count <= last.Count {
		t.Error("no bucket is beyond the last edge")
	}
}
