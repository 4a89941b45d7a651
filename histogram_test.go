package bullpen_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// histogramOf counts durations.
func histogramOf(durations ...time.Duration) *bullpen.Histogram {
	h := new(bullpen.Histogram)
	for _, d := range durations {
		h.Add(d)
	}
	return h
}

// TestHistogramBuckets walks over every boundary: a bucket begins one nanosecond after
// the bound of the one before, and is at most a quarter of its value wide.
func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	var h bullpen.Histogram
	last := len(h.Buckets) - 1
	for i := range last {
		bound := h.Bound(i)
		if got := bullpen.HistogramBucket(bound); got != i {
			t.Errorf("HistogramBucket(%d) = %d, want %d, whose bound it is", bound, got, i)
		}
		if got := bullpen.HistogramBucket(bound + 1); got != i+1 {
			t.Errorf("HistogramBucket(%d) = %d, want %d, which begins there", bound+1, got, i+1)
		}
		if i >= 8 {
			if low := h.Bound(i-1) + 1; float64(bound-low+1) > float64(low)/4 {
				t.Errorf("bucket %d goes from %d to %d: more than a quarter", i, low, bound)
			}
		}
	}
	if got := bullpen.HistogramBucket(math.MaxInt64); got != last || h.Bound(last) != math.MaxInt64 {
		t.Errorf("the longest duration is in bucket %d, and the last one ends at %v", got, h.Bound(last))
	}
	if begin := h.Bound(last - 1); begin < 9*24*time.Hour {
		t.Errorf("the last bucket begins at %v, before nine days", begin)
	}
	if bullpen.HistogramBucket(-5) != 0 {
		t.Error("a negative duration does not count as 0")
	}
}

func TestHistogramQuantiles(t *testing.T) {
	t.Parallel()
	none := histogramOf()
	if none.Mean() != 0 || none.Quantile(0.5) != 0 || none.Count != 0 {
		t.Errorf("an empty histogram has mean %v, median %v, count %d", none.Mean(), none.Quantile(0.5), none.Count)
	}
	h := histogramOf(-5, 1*time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, 90*time.Millisecond, 40*24*time.Hour)
	if h.Count != 6 || h.Max != 40*24*time.Hour || h.Sum != h.Max+96*time.Millisecond || h.Mean() != h.Sum/6 {
		t.Errorf("count %d, max %v, sum %v, mean %v", h.Count, h.Max, h.Sum, h.Mean())
	}
	for q, want := range map[float64]time.Duration{
		-1: 0, 0: 0, 1.0 / 6: 0, 0.2: time.Millisecond, 0.5: 2 * time.Millisecond, 0.51: 3 * time.Millisecond,
		0.8: 90 * time.Millisecond, 0.9: h.Max, 1: h.Max, 7: h.Max,
	} {
		if got := h.Quantile(q); got < want || got > want+want/4 {
			t.Errorf("Quantile(%v) = %v, want %v or up to a quarter more", q, got, want)
		}
	}
	if got := h.Quantile(math.NaN()); got != 0 {
		t.Errorf("Quantile(NaN) = %v", got)
	}
}

// TestHistogramOfMany draws durations: quantiles are right within a quarter.
func TestHistogramOfMany(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for range 2000 {
		all = append(all, time.Duration(math.Exp2(rand.Float64()*49)))
	}
	h := histogramOf(all...)
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if got := h.Quantile(q); got < want || got > want+want/4 {
			t.Errorf("quantile %v is %v, want %v or up to a quarter more", q, got, want)
		}
	}
}

func TestHistogramsAddUp(t *testing.T) {
	t.Parallel()
	h := histogramOf(time.Second, time.Millisecond)
	later := *h
	later.Add(time.Minute)
	d := later.Minus(h)
	if d.Count != 1 || d.Sum != time.Minute || d.Quantile(1) != time.Minute || d.Mean() != time.Minute {
		t.Errorf("between the two came %d of %v, quantile %v, want one of a minute", d.Count, d.Sum, d.Quantile(1))
	}
	if h.Plus(&d) != later {
		t.Error("what came first and what came then is not all of it")
	}
}

func ExampleHistogram() {
	var h bullpen.Histogram
	for i := range 100 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	fmt.Println(h.Count, h.Mean(), h.Max, h.Quantile(0.5))
	// Output: 100 50.5ms 100ms 50ms
}

func ExampleHistogram_Minus() {
	var before bullpen.Histogram
	before.Add(time.Second)
	now := before
	now.Add(time.Minute)
	since := now.Minus(&before)
	fmt.Println(since.Count, since.Mean())
	// Output: 1 1m0s
}

func ExampleHistogram_Plus() {
	var a, b bullpen.Histogram
	a.Add(time.Second)
	b.Add(3 * time.Second)
	both := a.Plus(&b)
	fmt.Println(both.Count, both.Mean())
	// Output: 2 2s
}

func ExampleHistogram_Add() {
	var h bullpen.Histogram
	h.Add(20 * time.Millisecond)
	fmt.Println(h.Count, h.Sum)
	// Output: 1 20ms
}

func ExampleHistogram_Bound() {
	var h bullpen.Histogram
	h.Add(1500 * time.Microsecond)
	for i, n := range h.Buckets {
		if n > 0 {
			fmt.Println(n, "of at most", h.Bound(i))
		}
	}
	// Output: 1 of at most 1.6ms
}

func ExampleHistogram_Mean() {
	var h bullpen.Histogram
	h.Add(time.Second)
	h.Add(2 * time.Second)
	fmt.Println(h.Mean())
	// Output: 1.5s
}

func ExampleHistogram_Quantile() {
	var h bullpen.Histogram
	for range 99 {
		h.Add(time.Millisecond)
	}
	h.Add(time.Minute)
	fmt.Println(h.Quantile(0.5), h.Quantile(1))
	// Output: 1ms 1m0s
}

func ExampleHistogramBucket() {
	var h bullpen.Histogram
	fmt.Println(h.Bound(bullpen.HistogramBucket(1100 * time.Millisecond)))
	// Output: 1.2s
}
