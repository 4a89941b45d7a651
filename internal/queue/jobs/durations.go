package jobs

import (
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Histogram counts durations. It is written by many goroutines at a time.
type Histogram struct {
	sum, max atomic.Int64
	buckets  [len(bullpen.Histogram{}.Buckets)]atomic.Uint64
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0) // the clocks of two nodes may differ
	h.sum.Add(int64(d))
	h.buckets[bullpen.HistogramBucket(d)].Add(1)
	for most := h.max.Load(); int64(d) > most && !h.max.CompareAndSwap(most, int64(d)); {
		most = h.max.Load()
	}
}

// Snapshot returns what has been counted by now.
func (h *Histogram) Snapshot() bullpen.Histogram {
	s := bullpen.Histogram{Sum: time.Duration(h.sum.Load()), Max: time.Duration(h.max.Load())}
	for i := range h.buckets {
		n := h.buckets[i].Load()
		s.Buckets[i] = n
		s.Count += n
	}
	return s
}
