package queue

import (
	"math"
	"time"

	"github.com/bullpen-run/bullpen/internal/durations"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// Histogram is a snapshot of how long something took. What came between two snapshots
// is the later one [Histogram.Minus] the earlier.
type Histogram struct {
	Count uint64
	Sum   time.Duration
	// Buckets has the counts; [Histogram.Bound] has their bounds.
	Buckets [192]uint64
}

// Bound returns the largest duration that bucket i counts. The last bucket counts all
// longer ones too.
func (h *Histogram) Bound(i int) time.Duration {
	return durations.Edge(min(i, len(h.Buckets)-1))
}

// Minus returns what came after an earlier snapshot.
func (h *Histogram) Minus(earlier *Histogram) Histogram {
	d := Histogram{Count: h.Count - earlier.Count, Sum: h.Sum - earlier.Sum}
	for i := range h.Buckets {
		d.Buckets[i] = h.Buckets[i] - earlier.Buckets[i]
	}
	return d
}

// Plus returns the sum of two histograms, such as those of two queues.
func (h *Histogram) Plus(other *Histogram) Histogram {
	s := Histogram{Count: h.Count + other.Count, Sum: h.Sum + other.Sum}
	for i := range h.Buckets {
		s.Buckets[i] = h.Buckets[i] + other.Buckets[i]
	}
	return s
}

// Mean returns the mean, 0 if there is nothing.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile returns a duration that the fraction q (0 to 1) of all durations does not
// exceed, 0 if there is nothing. It may be too long by a quarter. It is never too
// short, except for durations above eleven days.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(0) // of the one that is looked for, from 0
	if q > 0 {
		rank = uint64(math.Ceil(min(q, 1)*float64(h.Count))) - 1
	}
	for i, n := range h.Buckets {
		if rank < n {
			return h.Bound(i)
		}
		rank -= n
	}
	return h.Bound(jobs.HistogramBuckets - 1)
}
