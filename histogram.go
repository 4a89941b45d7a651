package bullpen

import (
	"math"
	"time"

	"github.com/bullpen-run/bullpen/internal/durations"
)

// Histogram is a snapshot of how long something took. The zero value is empty. What came
// between two snapshots is the later one [Histogram.Minus] the earlier.
type Histogram struct {
	// Count is how many durations there were, Sum what they add up to, Max the longest.
	Count    uint64
	Sum, Max time.Duration
	// Buckets has how many durations fell into each bucket; [Histogram.Bound] gives the
	// bounds, which are round numbers of seconds, each at most a quarter above the one
	// before.
	Buckets [192]uint64
}

// HistogramBucket returns the number of the bucket that counts d. A negative duration
// counts as 0.
func HistogramBucket(d time.Duration) int {
	return min(durations.Bucket(d), len(Histogram{}.Buckets)-1)
}

// Add counts d. It must not be called concurrently with other methods.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.Count++
	h.Sum += d
	h.Max = max(h.Max, d)
	h.Buckets[HistogramBucket(d)]++
}

// Bound returns the longest duration that bucket i counts. The last bucket, which begins
// at nine days, counts all longer ones.
func (h *Histogram) Bound(i int) time.Duration {
	if i >= len(h.Buckets)-1 {
		return math.MaxInt64
	}
	return durations.Edge(i)
}

// Mean returns the mean, 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile returns a duration that the fraction q (0 to 1) of all durations does not
// exceed, 0 for an empty histogram. It may be too long by a quarter, never too short.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(0) // of the duration that is looked for, from 0
	if q > 0 {
		rank = uint64(math.Ceil(min(q, 1)*float64(h.Count))) - 1
	}
	for i, n := range h.Buckets {
		if rank < n {
			return min(h.Bound(i), h.Max)
		}
		rank -= n
	}
	return h.Max
}

// Plus returns the durations of both histograms.
func (h *Histogram) Plus(other *Histogram) Histogram {
	s := Histogram{Count: h.Count + other.Count, Sum: h.Sum + other.Sum, Max: max(h.Max, other.Max)}
	for i := range h.Buckets {
		s.Buckets[i] = h.Buckets[i] + other.Buckets[i]
	}
	return s
}

// Minus returns the durations that came after an earlier snapshot. Its Max is that of h:
// which of them was the longest is not known.
func (h *Histogram) Minus(earlier *Histogram) Histogram {
	d := Histogram{Count: h.Count - earlier.Count, Sum: h.Sum - earlier.Sum, Max: h.Max}
	for i := range h.Buckets {
		d.Buckets[i] = h.Buckets[i] - earlier.Buckets[i]
	}
	return d
}
