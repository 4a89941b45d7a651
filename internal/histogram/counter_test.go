package histogram_test

import (
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/histogram"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestCounter counts from several goroutines, with durations that stand for several.
func TestCounter(t *testing.T) {
	t.Parallel()
	var c histogram.Counter
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				c.Add(time.Duration(i+1)*time.Second, 4)
				c.Add(-5, 1)
			}
		})
	}
	all.Wait()
	h := c.Snapshot()
	if h.Count != 40_000 || h.Sum != 4*36*1000*time.Second || h.Max != 8*time.Second || h.Quantile(0.1) != 0 || h.Quantile(1) != h.Max {
		t.Errorf("%d durations, sum %v, longest %v", h.Count, h.Sum, h.Max)
	}
	c.AddTo(&h)
	if twice := c.Snapshot(); h != twice.Plus(&twice) {
		t.Error("added to itself it is not twice as much")
	}
	if h := new(histogram.Counter).Snapshot(); h != (bullpen.Histogram{}) {
		t.Errorf("nothing was counted: %d", h.Count)
	}
}
