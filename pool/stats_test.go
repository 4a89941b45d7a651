package pool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

var errNo = errors.New("no")

// TestKnownDurations runs tasks whose lengths are known.
func TestKnownDurations(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{
		0, time.Nanosecond, 700 * time.Nanosecond, 3 * time.Microsecond, 40 * time.Microsecond,
		900 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, time.Second, time.Hour,
	} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Max: 1, Idle: 2 * time.Hour})
				f := NewFunc(p, func(_ context.Context, d time.Duration) (int, error) {
					<-time.After(d)
					return 0, nil
				})
				for range 3 {
					if _, err := f.Call(t.Context(), d); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Second) // seldom, so that each is measured
				}
				wantRun(t, p.Stats(), "task", 3, d)
			})
		})
	}
}

// wantRun wants n run times of d.
func wantRun(t *testing.T, s Stats, task string, n uint64, d time.Duration) {
	t.Helper()
	run := s.Tasks[task].Run
	if run.Count != n || run.Max != d || run.Sum != time.Duration(n)*d || run.Buckets[bullpen.HistogramBucket(d)] != n {
		t.Errorf("%d tasks of %v are seen as %d with the sum %v and the longest %v, %d of them in the right bucket",
			n, d, run.Count, run.Sum, run.Max, run.Buckets[bullpen.HistogramBucket(d)])
	}
}

// TestIdleTimeIsNotRunTime has an idle worker run a long task, and one that
// panics, after a short one: neither is as long as the worker was idle.
func TestIdleTimeIsNotRunTime(t *testing.T) {
	t.Parallel()
	const d = 50 * time.Millisecond
	for name, end := range map[string]func(){"returns": func() {}, "panics": func() { panic("no") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Max: 1, Idle: time.Hour})
				for _, body := range []func(){func() {}, func() {
					<-time.After(d)
					end()
				}} {
					if err := p.Go(t.Context(), body); err != nil {
						t.Fatal(err)
					}
					<-time.After(10 * time.Second)
				}
				if longest := p.Stats().Tasks["task"].Run.Max; longest > d+d/4 {
					t.Errorf("the longest of an empty task and one of %v took %v", d, longest)
				}
			})
		})
	}
}

// TestSampledCounts has thousands of short tasks: the counts of wait and run
// times are near the number of tasks.
func TestSampledCounts(t *testing.T) {
	t.Parallel()
	const n = 64 * 200
	p := open(t, Config{Max: 1, Queue: n})
	gate := make(chan struct{})
	if err := p.Go(t.Context(), func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		if err := p.Go(t.Context(), all.Done); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	all.Wait()
	s := p.Stats().Tasks["task"]
	for name, h := range map[string]bullpen.Histogram{"wait": s.Wait, "run": s.Run} {
		if h.Count < n/2 || h.Count > 2*n {
			t.Errorf("%s times count %d, want about %d", name, h.Count, n)
		}
	}
}

// TestStatsTellApart gives each way to end its place in the counts.
func TestStatsTellApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Min: 1, Max: 2, Queue: 2, Overflow: Reject})
		at := p.With(Options{Name: "a"})
		do := func(on Target, fn func(context.Context) (int, error)) error {
			f, err := Submit(t.Context(), on, fn)
			if err != nil {
				return err
			}
			_, err = f.Wait(context.Background())
			return err
		}
		for _, c := range []struct {
			want bullpen.Outcome
			fn   func(context.Context) (int, error)
		}{
			{bullpen.Failed, func(context.Context) (int, error) { return 0, errNo }},
			{bullpen.Panic, func(context.Context) (int, error) { panic("no") }},
			{bullpen.OK, func(context.Context) (int, error) { return 1, nil }},
			{bullpen.Timeout, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }},
		} {
			err := do(at.With(Options{Timeout: time.Second}), c.fn)
			if got, started := bullpen.OutcomeOf(err); !started || got != c.want {
				t.Errorf("the outcome is %v (%v), want %v", got, err, c.want)
			}
			if n := p.Stats().Tasks["a"].Outcomes[c.want]; n != 1 {
				t.Errorf("%v is counted %d times when its caller has the outcome", c.want, n)
			}
		}
		synctest.Wait()
		s := p.Stats()
		if s.Total() != 4 || s.Accepted != 4 || s.Failed() != 3 || s.NeverStarted != 0 || s.Refused != 0 {
			t.Errorf("total %d, accepted %d, failed %d, never started %d, refused %d", s.Total(), s.Accepted, s.Failed(), s.NeverStarted, s.Refused)
		}
		a, other := s.Tasks["a"], s.Tasks["task"]
		if a.Total() != 4 || a.Failed() != 3 || other.Total() != 0 {
			t.Errorf("task a: total %d, failed %d; without name: %d", a.Total(), a.Failed(), other.Total())
		}
	})
}

// TestStatsOfAFullPool has tasks in each place at once.
func TestStatsOfAFullPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Min: 1, Max: 2, Queue: 3})
		free := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var blocked sync.WaitGroup
		for range 2 + 3 {
			if err := p.Go(t.Context(), func() { <-free }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 4 {
			blocked.Go(func() {
				if err := p.Go(ctx, func() {}); !errors.Is(err, context.Canceled) {
					t.Errorf("the blocked caller got %v", err)
				}
			})
		}
		synctest.Wait()
		s := p.Stats()
		if s.Busy != 2 || s.Size != 2 || s.Idle+s.Searching != 0 || s.Queued != 3 || s.Blocked != 4 || s.Accepted != 5 || s.Total() != 0 {
			t.Errorf("a full pool: %+v", short(s))
		}
		if s.Min != 1 || s.Max != 2 || s.State != Open {
			t.Errorf("min %d, max %d, state %v", s.Min, s.Max, s.State)
		}
		cancel()
		blocked.Wait()
		close(free)
		synctest.Wait()
		s = p.Stats()
		if s.Busy != 0 || s.Idle != 2 || s.Queued != 0 || s.Blocked != 0 || s.Accepted != 5 || s.Total() != 5 || s.Refused != 4 {
			t.Errorf("an idle pool: %+v", short(s))
		}
		p.Close()
		if s = p.Stats(); s.State != Closed || s.Size != 0 || s.Total() != 5 {
			t.Errorf("a closed pool: %+v", short(s))
		}
	})
}

// short leaves out the histograms.
func short(s Stats) Stats {
	s.Tasks = nil
	return s
}

// TestStatsOfStuckBodies has bodies that ignore their deadlines, one within and
// one beyond Config.Stuck.
func TestStatsOfStuckBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2, Stuck: 1, Timeout: time.Second, Idle: time.Hour})
		free := make(chan struct{})
		f := NewFunc(p, func(context.Context, int) (int, error) {
			<-free
			return 0, nil
		})
		for range 2 {
			if _, err := f.Call(t.Context(), 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		s := p.Stats()
		if s.Stuck != 2 || s.Overruns != 2 || s.Late != 0 || s.Total() != 2 || s.Accepted != 2 || s.Outcomes[bullpen.Timeout] != 2 {
			t.Errorf("two stuck bodies: %+v", short(s))
		}
		close(free)
		synctest.Wait()
		s = p.Stats()
		if s.Stuck != 0 || s.Overruns != 2 || s.Late != 2 || s.Total() != 2 || s.Busy != 0 {
			t.Errorf("after their end: %+v", short(s))
		}
	})
}

// TestRefusedCallersAreCounted wants every caller who gets an error in Refused,
// and in no other count.
func TestRefusedCallersAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Queue: 1})
		free := make(chan struct{})
		for range 2 {
			if err := p.Go(t.Context(), func() { <-free }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		var blocked sync.WaitGroup
		for range 3 {
			blocked.Go(func() {
				if err := p.Go(context.Background(), func() {}); !errors.Is(err, bullpen.ErrClosed) {
					t.Errorf("a caller who was blocked at the end got %v", err)
				}
			})
		}
		synctest.Wait()
		var stop sync.WaitGroup
		stop.Go(func() {
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		blocked.Wait()
		if err := p.Go(t.Context(), func() {}); !errors.Is(err, bullpen.ErrClosed) {
			t.Errorf("a caller after the end got %v", err)
		}
		synctest.Wait() // until the task that waits has been ended
		close(free)
		stop.Wait()
		if s := p.Stats(); s.Refused != 4 || s.NeverStarted != 1 || s.Outcomes[bullpen.OK] != 1 || s.Accepted != 2 || s.Blocked != 0 {
			t.Errorf("after Stop: %+v", short(s))
		}
	})
}

// TestStatsUnderLoad reads all the time while tasks run: it returns, and
// what has ended never becomes less.
func TestStatsUnderLoad(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4, Timeout: time.Second})
	f := NewFunc(p, fact)
	done := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := range 3000 {
				if i%2 == 0 {
					if err := p.Go(context.Background(), func() {}); err != nil {
						t.Error(err)
					}
				} else if _, err := f.Call(context.Background(), uint64(n%20)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { // ends after the callers, whose end this test waits for
		callers.Wait()
		close(done)
	}()
	before := uint64(0)
	for reading := true; reading; runtime.Gosched() {
		select {
		case <-done:
			reading = false
		default:
		}
		s := p.Stats()
		if now := s.Total(); now < before {
			t.Fatalf("%d tasks had ended, now %d", before, now)
		} else {
			before = now
		}
		if s.Queued < 0 || s.Busy < 0 || s.Size > 4 {
			t.Fatalf("impossible: %+v", short(s))
		}
	}
	if err := p.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Total() != 12000 || s.Accepted != 12000 || s.Outcomes[bullpen.OK] != 12000 {
		t.Errorf("at the end: %+v", short(s))
	}
}
