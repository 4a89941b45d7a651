// Package durations has the buckets in which all histograms count durations. Their edges
// are round numbers: 1, 1.2, 1.4, 1.6, 2, 2.5, 3, 3.5, 4, 5, 6, 7 and 8 of each decade,
// each at most a quarter above the one before.
package durations

import (
	"math"
	"math/bits"
	"time"
)

// edges has the largest duration of each bucket: each nanosecond up to 8, the steps of
// each decade from 10 ns to 25 years, and then the longest duration that there can be.
var edges = func() (all [256]time.Duration) {
	for i := range all {
		if all[i] = time.Duration(i); i > 8 {
			all[i] = math.MaxInt64
		}
	}
	i := 9
	for unit := int64(1); unit <= math.MaxInt64/100; unit *= 10 {
		for _, step := range [...]int64{10, 12, 14, 16, 20, 25, 30, 35, 40, 50, 60, 70, 80} {
			all[i] = time.Duration(step * unit)
			i++
		}
	}
	return all
}()

// cells are spans of durations: each nanosecond up to 15, from there on an eighth of a
// power of two. As buckets are wider, a cell has at most one edge inside.
const cells = 61 * 8

// first has the buckets in which the cells begin.
var first = func() (all [cells]uint8) {
	bucket := uint8(0)
	for i := range all {
		begin := time.Duration(i)
		if i >= 16 {
			begin = time.Duration(8|i&7) << (i>>3 - 1)
		}
		for edges[bucket] < begin {
			bucket++
		}
		all[i] = bucket
	}
	return all
}()

// Bucket returns the number of the bucket that counts a duration. One below 0 counts as 0.
func Bucket(d time.Duration) int {
	ns := uint64(max(d, 0))
	e := uint(bits.Len64(ns|8) - 4)
	i := first[e<<3+uint(ns>>e)]
	if d > edges[i] {
		i++
	}
	return int(i)
}

// Edge returns the largest duration that bucket i counts.
func Edge(i int) time.Duration { return edges[min(max(i, 0), len(edges)-1)] }

// Cumulate returns how many of the counted durations are not longer than 1, 2.5 and 5 of
// each decade between two powers of ten from 10 ns on, keyed by seconds. All these are edges, so
// that each count is exact.
func Cumulate(counts []uint64, shortest, longest time.Duration) map[float64]uint64 {
	sums := map[float64]uint64{}
	i, sum := 0, uint64(0)
	for decade := shortest; decade <= longest; decade *= 10 {
		for _, edge := range [...]time.Duration{decade, decade * 5 / 2, decade * 5} {
			if edge > longest {
				break
			}
			for ; i < len(counts) && edges[i] <= edge; i++ {
				sum += counts[i]
			}
			sums[float64(edge)/float64(time.Second)] = sum // as seconds are rounded once, they print as round
		}
	}
	return sums
}
