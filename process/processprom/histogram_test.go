package processprom

import (
	"testing"

	"github.com/bullpen-run/bullpen/process"
)

// TestBounds wants bounds that rise, begin near a microsecond, end near 100
// seconds, and are those of the pool's histogram.
func TestBounds(t *testing.T) {
	t.Parallel()
	var h process.Histogram
	all := bounds()
	for i, b := range all {
		if d := h.Bound(b.index) - 1; b.le != d.Seconds() {
			t.Errorf("bound %d is %v, but bucket %d ends at %v", i, b.le, b.index, d)
		}
		if i > 0 && b.index <= all[i-1].index {
			t.Errorf("bound %d is not above the one before", i)
		}
	}
	first, last := all[0].le, all[len(all)-1].le
	if first < 1e-6 || first > 1.25e-6 || last < 100 || last > 125 || len(all) != 17 {
		t.Errorf("%d bounds from %v to %v", len(all), first, last)
	}
}

// TestEveryDurationIsInOneBucket has one duration in each bucket of the pool.
func TestEveryDurationIsInOneBucket(t *testing.T) {
	t.Parallel()
	var h process.Histogram
	for i := range h.Buckets {
		h.Buckets[i]++
		h.Count++
	}
	var twice process.Histogram
	merge(&twice, &h)
	merge(&twice, &h)
	counts, total := cumulate(&twice)
	for _, b := range bounds() {
		if counts[b.le] != 2*(uint64(b.index)+1) {
			t.Errorf("%d buckets end at %v or before, counted are %d", b.index+1, b.le, counts[b.le])
		}
	}
	if twice.Count <= total {
		t.Error("no bucket is beyond the last bound")
	}
}
