package poolprom

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/metriclist"
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
# HELP bullpen_pool_blocked_callers Callers that wait for room in a queue.
# TYPE bullpen_pool_blocked_callers gauge
bullpen_pool_blocked_callers{pool="images"} 0
# HELP bullpen_pool_callers_running Callers that run tasks in their own goroutines.
# TYPE bullpen_pool_callers_running gauge
bullpen_pool_callers_running{pool="images"} 0
# HELP bullpen_pool_overruns_total Tasks that were answered while their bodies kept running.
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
# HELP bullpen_pool_stuck Bodies that still run although their tasks were answered.
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
# HELP bullpen_pool_workers_max Maximum number of workers that run tasks at a time.
# TYPE bullpen_pool_workers_max gauge
bullpen_pool_workers_max{pool="images"} 2
# HELP bullpen_pool_workers_min Minimum number of workers.
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
# HELP bullpen_pool_lane_limit Maximum number of bodies of the lane at a time, 0 for the number of workers.
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

// TestRunTimesLandInTheirBuckets runs tasks of known lengths. The edges are round numbers
// of seconds, from a microsecond to 100 seconds, and count what is not longer.
func TestRunTimesLandInTheirBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pool.Config{Name: "p", Max: 1, Idle: time.Hour})
		f := pool.NewFunc(p.With(pool.Options{Name: "nap"}), func(_ context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			return 0, nil
		})
		naps := []time.Duration{
			100 * time.Microsecond, 2500 * time.Microsecond, 2500*time.Microsecond + 1, 10 * time.Millisecond, 50 * time.Millisecond,
			100 * time.Millisecond, 500 * time.Millisecond, time.Second, 100 * time.Second, 100*time.Second + 1,
		}
		for _, d := range naps {
			if _, err := f.Call(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		h := p.Stats().Tasks["nap"].Run
		if h.Count != uint64(len(naps)) {
			t.Errorf("%d tasks were counted, want %d", h.Count, len(naps))
		}
		buckets := metriclist.Buckets(t, histogram(run, &h, "p", "nap"))
		if first, last := buckets[0].Edge, buckets[len(buckets)-1].Edge; len(buckets) != 25 || first != 1e-6 || last != 100 {
			t.Errorf("%d edges from %v to %v, want 1, 2.5 and 5 of each decade from 1e-06 to 100", len(buckets), first, last)
		}
		for _, b := range buckets {
			n := uint64(0)
			for _, d := range naps {
				if float64(d) <= b.Edge*1e9 {
					n++
				}
			}
			if b.Count != n {
				t.Errorf("%d tasks are not longer than %v s, want %d", b.Count, b.Edge, n)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	a, twin, b := open(t, pool.Config{Name: "a"}), open(t, pool.Config{Name: "a"}), open(t, pool.Config{Name: "b"})
	if _, err := New(a, nil, twin); err == nil || !strings.Contains(err.Error(), `already a pool "a"`) || !strings.Contains(err.Error(), "nil") {
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
