package jobs

import (
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/durations"
)

// HistogramBuckets are from a nanosecond to eleven days.
const HistogramBuckets = 192

// Histogram counts durations. It is written by many goroutines at a time.
type Histogram struct {
	sum     atomic.Int64
	buckets [HistogramBuckets]atomic.Uint64
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0) // the clocks of two nodes may differ
	h.sum.Add(int64(d))
	h.buckets[min(durations.Bucket(d), HistogramBuckets-1)].Add(1)
}

// Counted is what a histogram has counted.
type Counted struct {
	Count   uint64
	Sum     time.Duration
	Buckets [HistogramBuckets]uint64
}

// Snapshot returns what has been counted by now.
func (h *Histogram) Snapshot() Counted {
	s := Counted{Sum: time.Duration(h.sum.Load())}
	for i := range h.buckets {
		n := h.buckets[i].Load()
		s.Buckets[i] = n
		s.Count += n
	}
	return s
}
