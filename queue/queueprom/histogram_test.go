package queueprom

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/queue"
)

// TestHistogram wants each duration under every bound that is not shorter, and
// bounds close above 1 and 5 of each decade.
func TestHistogram(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{0, 90 * time.Microsecond, time.Millisecond, 2 * time.Second, 26 * time.Hour, 100 * time.Hour}
	h := queue.Histogram{Count: uint64(len(durations))}
	for _, d := range durations {
		h.Buckets[index(&h, d)]++
	}
	counts := cumulate(&h)
	if len(counts) != 19 {
		t.Errorf("there are %d bounds, want 19", len(counts))
	}
	want := shortest
	for i, le := range slices.Sorted(maps.Keys(counts)) {
		if le < want.Seconds() || le > 1.3*want.Seconds() {
			t.Errorf("bound %d is %v, want it close above %v", i, le, want.Seconds())
		}
		n := uint64(0)
		for _, d := range durations {
			if d.Seconds() <= le {
				n++
			}
		}
		if counts[le] != n {
			t.Errorf("%d are not longer than %v s, want %d", counts[le], le, n)
		}
		if want *= 5; i%2 == 1 {
			want = want / 25 * 10
		}
	}
}

// index is the bucket of a duration.
func index(h *queue.Histogram, d time.Duration) int {
	i := 0
	for h.Bound(i) <= d {
		i++
	}
	return i
}
