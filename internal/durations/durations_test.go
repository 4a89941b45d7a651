package durations

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestEdges wants every edge in the bucket that it ends, what is longer in the next one,
// and no bucket wider than a quarter of what it begins with. Every edge up to 20 years is
// a round number of seconds.
func TestEdges(t *testing.T) {
	t.Parallel()
	for i := 0; Edge(i) < math.MaxInt64; i++ {
		edge := Edge(i)
		if Bucket(edge) != i || Bucket(edge+1) != i+1 {
			t.Errorf("%d ns is in bucket %d and what follows in %d, want %d and the next one", edge, Bucket(edge), Bucket(edge+1), i)
		}
		if begin := Edge(i-1) + 1; i > 0 && 4*(edge-begin) >= begin {
			t.Errorf("bucket %d goes from %d to %d ns: more than a quarter", i, begin, edge)
		}
		digits, _, _ := strings.Cut(strconv.FormatFloat(edge.Seconds(), 'e', -1, 64), "e")
		if len(digits) > len("2.5") {
			t.Errorf("%d ns are %v s", edge, edge.Seconds())
		}
		if Edge(i+1) == math.MaxInt64 && edge < 20*365*24*time.Hour {
			t.Errorf("the edges end with %v", edge)
		}
	}
	for ns, want := range map[int64]int{math.MinInt64: 0, -1: 0, 0: 0, 1: 1} {
		if got := Bucket(time.Duration(ns)); got != want {
			t.Errorf("%d ns are in bucket %d, want %d", ns, got, want)
		}
	}
	if last := Bucket(math.MaxInt64); Edge(last) != math.MaxInt64 || Edge(last-1) == math.MaxInt64 {
		t.Errorf("the longest duration is in bucket %d, which ends with %v", last, Edge(last))
	}
	if Edge(math.MinInt) != 0 || Edge(math.MaxInt) != math.MaxInt64 {
		t.Error("the edges do not end where the buckets do")
	}
}

// FuzzBucket wants each duration in the bucket whose edges are around it.
func FuzzBucket(f *testing.F) {
	for _, d := range []int64{math.MinInt64, -1, 0, 1, 7, 8, 9, 15, 16, 17, 1e3, 1e6 + 1, 1 << 40, 1<<62 - 1, math.MaxInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(max(ns, 0))
		if i := Bucket(time.Duration(ns)); d > Edge(i) || i > 0 && d <= Edge(i-1) {
			t.Errorf("%d ns are in bucket %d, from %d to %d", ns, i, Edge(i-1)+1, Edge(i))
		}
	})
}

// TestCumulate counts one duration of each edge that is shown, and one a nanosecond longer.
func TestCumulate(t *testing.T) {
	t.Parallel()
	counts := make([]uint64, Bucket(time.Hour))
	steps := []time.Duration{
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
		25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	}
	for _, d := range steps {
		counts[Bucket(d)]++
		counts[Bucket(d+1)]++
	}
	sums := Cumulate(counts, time.Millisecond, 100*time.Millisecond)
	want := []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1}
	for i, edge := range want {
		if n, ok := sums[edge]; !ok || n != uint64(2*i+1) {
			t.Errorf("%d are not longer than %v s (%v), want %d", n, edge, ok, 2*i+1)
		}
	}
	if len(sums) != len(want) {
		t.Errorf("the edges are those of %v, want %v", sums, want)
	}
	few := Cumulate(counts[:2], time.Microsecond, time.Second)
	if few[1] != 0 || len(few) != 19 {
		t.Errorf("of two empty buckets: %v", few)
	}
}
