// Package histogram counts durations from many goroutines at once, for the snapshots of
// package bullpen.
package histogram

import (
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Counter counts durations. The zero value has counted none. All methods are safe for
// concurrent use and take a few nanoseconds; a snapshot during a call may have a part of
// what it counts.
type Counter struct {
	sum, max atomic.Int64
	buckets  [len(bullpen.Histogram{}.Buckets)]atomic.Uint64
}

// Add counts d, which stands for weight durations. A negative one counts as 0.
func (c *Counter) Add(d time.Duration, weight uint64) {
	d = max(d, 0)
	c.sum.Add(int64(d) * int64(weight))
	c.buckets[bullpen.HistogramBucket(d)].Add(weight)
	for most := c.max.Load(); int64(d) > most && !c.max.CompareAndSwap(most, int64(d)); {
		most = c.max.Load()
	}
}

// AddTo adds what was counted to h.
func (c *Counter) AddTo(h *bullpen.Histogram) {
	h.Sum += time.Duration(c.sum.Load())
	h.Max = max(h.Max, time.Duration(c.max.Load()))
	for i := range c.buckets {
		n := c.buckets[i].Load()
		h.Buckets[i] += n
		h.Count += n
	}
}

// Snapshot returns what was counted.
func (c *Counter) Snapshot() (h bullpen.Histogram) {
	c.AddTo(&h)
	return h
}
