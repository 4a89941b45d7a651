package poolprom

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/pool"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, c pool.Config) *pool.Pool {
	t.Helper()
	p, err := pool.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func collector(t *testing.T, pools ...*pool.Pool) *Collector {
	t.Helper()
	c, err := New(pools...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNamesAreConventional asks the linter of the metrics library.
func TestNamesAreConventional(t *testing.T) {
	t.Parallel()
	a := open(t, pool.Config{Name: "a"})
	for _, lane := range []string{"x", "y"} {
		if _, err := a.Lane(pool.LaneConfig{Name: lane}); err != nil {
			t.Fatal(err)
		}
	}
	c := collector(t, a, open(t, pool.Config{Name: "b"}))
	r := prometheus.NewPedanticRegistry() // also holds Collect against Describe
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// fullPool is what TestAFullPool wants to see.
const fullPool = `
# HELP bullpen_pool_blocked_callers Callers that wait for a place in a queue.
# TYPE bullpen_pool_blocked_callers gauge
bullpen_pool_blocked_callers{pool="images"} 0
# HELP bullpen_pool_callers_running Callers that run tasks in goroutines of their own.
# TYPE bullpen_pool_callers_running gauge
bullpen_pool_callers_running{pool="images"} 0
# HELP bullpen_pool_overruns_total Tasks that were answered while their bodies went on.
# TYPE bullpen_pool_overruns_total counter
bullpen_pool_overruns_total{pool="images"} 1
# HELP bullpen_pool_queued Tasks that wait.
# TYPE bullpen_pool_queued gauge
bullpen_pool_queued{pool="images"} 2
# HELP bullpen_pool_refused_total Tasks that were not accepted.
# TYPE bullpen_pool_refused_total counter
bullpen_pool_refused_total{pool="images"} 3
# HELP bullpen_pool_state 1 for the state that the pool is in, 0 for the others.
# TYPE bullpen_pool_state gauge
bullpen_pool_state{pool="images",state="closed"} 0
bullpen_pool_state{pool="images",state="closing"} 0
bullpen_pool_state{pool="images",state="draining"} 0
bullpen_pool_state{pool="images",state="open"} 1
bullpen_pool_state{pool="images",state="stopping"} 0
# HELP bullpen_pool_stuck Bodies that run on although their tasks were answered.
# TYPE bullpen_pool_stuck gauge
bullpen_pool_stuck{pool="images"} 1
# HELP bullpen_pool_tasks_total Tasks that have ended, by outcome.
# TYPE bullpen_pool_tasks_total counter
bullpen_pool_tasks_total{outcome="canceled",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="canceled",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="failed",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="failed",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="never_started",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="never_started",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="ok",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="ok",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="output",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="output",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="panic",pool="images",task="stuck"} 0
bullpen_pool_tasks_total{outcome="panic",pool="images",task="task"} 0
bullpen_pool_tasks_total{outcome="timeout",pool="images",task="stuck"} 1
bullpen_pool_tasks_total{outcome="timeout",pool="images",task="task"} 0
# HELP bullpen_pool_workers Workers by what they do.
# TYPE bullpen_pool_workers gauge
bullpen_pool_workers{pool="images",state="busy"} 2
bullpen_pool_workers{pool="images",state="parked"} 0
bullpen_pool_workers{pool="images",state="searching"} 0
# HELP bullpen_pool_workers_max Most workers that may run tasks at a time.
# TYPE bullpen_pool_workers_max gauge
bullpen_pool_workers_max{pool="images"} 2
# HELP bullpen_pool_workers_min Workers that are always there.
# TYPE bullpen_pool_workers_min gauge
bullpen_pool_workers_min{pool="images"} 1
`

// TestAFullPool has tasks in each place and looks at every series.
func TestAFullPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pool.Config{Name: "images", Min: 1, Max: 2, Queue: 2, Overflow: pool.Reject, Timeout: 50 * time.Millisecond})
		free := make(chan struct{})
		stuck := pool.NewFunc(p.With(pool.Options{Name: "stuck"}), func(context.Context, int) (int, error) {
			<-free
			return 0, nil
		})
		if _, err := stuck.Call(t.Context(), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		for range 2 + 2 + 3 { // two run, two wait, three are refused
			_ = p.Go(t.Context(), func() { <-hold })
			synctest.Wait()
		}
		var names []string
		for line := range strings.Lines(fullPool) {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.Fields(name)[0])
			}
		}
		if err := testutil.CollectAndCompare(collector(t, p), strings.NewReader(fullPool), names...); err != nil {
			t.Error(err)
		}
		close(free)
		close(hold)
		synctest.Wait()
	})
}

// TestALane has one body run, two tasks wait and one be refused.
func TestALane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pool.Config{Name: "p", Max: 4})
		l, err := p.Lane(pool.LaneConfig{Name: "db", Limit: 1, Queue: 2, Overflow: pool.Reject})
		if err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		for range 1 + 2 + 1 {
			_ = l.Go(t.Context(), func() { <-hold })
			synctest.Wait()
		}
		const want = `
# HELP bullpen_pool_lane_limit Most bodies of the lane at a time, 0 for as many as there are workers.
# TYPE bullpen_pool_lane_limit gauge
bullpen_pool_lane_limit{lane="db",pool="p"} 1
# HELP bullpen_pool_lane_queued Tasks that wait in the lane.
# TYPE bullpen_pool_lane_queued gauge
bullpen_pool_lane_queued{lane="db",pool="p"} 2
# HELP bullpen_pool_lane_refused_total Tasks that the lane did not accept.
# TYPE bullpen_pool_lane_refused_total counter
bullpen_pool_lane_refused_total{lane="db",pool="p"} 1
# HELP bullpen_pool_lane_running Bodies of the lane that have not returned.
# TYPE bullpen_pool_lane_running gauge
bullpen_pool_lane_running{lane="db",pool="p"} 1
# HELP bullpen_pool_lane_started_total Tasks of the lane that were given to a worker.
# TYPE bullpen_pool_lane_started_total counter
bullpen_pool_lane_started_total{lane="db",pool="p"} 1
# HELP bullpen_pool_queued Tasks that wait.
# TYPE bullpen_pool_queued gauge
bullpen_pool_queued{pool="p"} 2
`
		if err := testutil.CollectAndCompare(collector(t, p), strings.NewReader(want), "bullpen_pool_lane_limit", "bullpen_pool_lane_queued",
			"bullpen_pool_lane_refused_total", "bullpen_pool_lane_running", "bullpen_pool_lane_started_total", "bullpen_pool_queued"); err != nil {
			t.Error(err)
		}
		close(hold)
		synctest.Wait()
	})
}

// TestRunTimesLandInTheirBuckets runs tasks of known lengths, at the article's
// bounds of 0.1 to 1000 ms.
func TestRunTimesLandInTheirBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pool.Config{Name: "p", Max: 1, Idle: time.Hour})
		f := pool.NewFunc(p.With(pool.Options{Name: "nap"}), func(_ context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			return 0, nil
		})
		naps := []time.Duration{
			100 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
			100 * time.Millisecond, 500 * time.Millisecond, time.Second,
		}
		for _, d := range naps {
			if _, err := f.Call(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		h := p.Stats().Tasks["nap"].Run
		counts, sum := cumulate(&h)
		for _, d := range naps {
			n := uint64(0) // how many are not longer
			for _, other := range naps {
				if other <= d {
					n++
				}
			}
			if got := atMost(counts, d); got != n {
				t.Errorf("%d tasks are not longer than %v, the histogram says %d", n, d, got)
			}
		}
		if sum != uint64(len(naps)) || h.Count != sum {
			t.Errorf("the buckets have %d tasks and the count is %d, want %d", sum, h.Count, len(naps))
		}
	})
}

// atMost is the count of the first bucket that has all up to d.
func atMost(counts map[float64]uint64, d time.Duration) uint64 {
	best := math.Inf(1)
	for le := range counts {
		if le >= d.Seconds() {
			best = min(best, le)
		}
	}
	return counts[best]
}

// TestBounds wants bounds that rise, begin near a microsecond, end near 100
// seconds, and are those of the pool's histogram.
func TestBounds(t *testing.T) {
	t.Parallel()
	var h pool.Histogram
	all := bounds()
	for i, b := range all {
		if d := h.Bound(b.index); b.le != d.Seconds() {
			t.Errorf("bound %d is %v, but bucket %d ends at %v", i, b.le, b.index, d)
		}
		if i > 0 && b.index <= all[i-1].index {
			t.Errorf("bound %d is not above the one before", i)
		}
	}
	first, last := all[0].le, all[len(all)-1].le
	if first < 1e-6 || first > 1.25e-6 || last < 100 || last > 125 || len(all) != 17 {
		t.Errorf("%d bounds from %v to %v", len(all), first, last)
	}
}

// TestEveryDurationIsInOneBucket has one duration in each bucket of the pool.
func TestEveryDurationIsInOneBucket(t *testing.T) {
	t.Parallel()
	var h pool.Histogram
	for i := range h.Buckets {
		h.Buckets[i]++
		h.Count++
	}
	counts, total := cumulate(&h)
	for _, b := range bounds() {
		if counts[b.le] != uint64(b.index)+1 {
			t.Errorf("%d buckets end at %v or before, counted are %d", b.index+1, b.le, counts[b.le])
		}
	}
	if beyond := h.Count - total; beyond == 0 {
		t.Error("no bucket is beyond the last bound")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	a, twin, b := open(t, pool.Config{Name: "a"}), open(t, pool.Config{Name: "a"}), open(t, pool.Config{Name: "b"})
	if _, err := New(a, nil, twin); err == nil || !strings.Contains(err.Error(), `a pool "a" already`) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("New says %v, want both faults", err)
	}
	c := collector(t, a)
	if err := c.Add(twin); err == nil {
		t.Error("two pools of one name were taken")
	}
	if err := c.Add(b); err != nil {
		t.Error(err)
	}
	c.Remove(a)
	c.Remove(a)
	if err := c.Add(twin); err != nil {
		t.Errorf("after Remove: %v", err)
	}
	if n := testutil.CollectAndCount(c, "bullpen_pool_queued"); n != 2 {
		t.Errorf("%d pools are shown, want 2", n)
	}
}

// TestWhatIsRegisteredTwice wants an error, not a panic.
func TestWhatIsRegisteredTwice(t *testing.T) {
	t.Parallel()
	c := collector(t)
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(c); err == nil {
		t.Error("the collector was registered twice")
	}
	if !r.Unregister(c) {
		t.Error("the collector cannot be unregistered")
	}
}

// TestOnlyTheAdapterLinksTheLibrary asks the compiler what a program with a pool
// links.
func TestOnlyTheAdapterLinksTheLibrary(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/bullpen-run/bullpen/pool").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if first, _, _ := strings.Cut(line, "/"); strings.Contains(first, ".") && !strings.HasPrefix(line, "github.com/bullpen-run/bullpen") {
			t.Errorf("package pool links %s", line)
		}
	}
}
