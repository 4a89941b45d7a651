package pool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestDefaults: the documented defaults are the real ones.
func TestDefaults(t *testing.T) {
	t.Parallel()
	p := open(t, Config{})
	c := p.config
	if c.Name != "pool" || c.Min != 0 || c.Max != 2*runtime.GOMAXPROCS(0) || c.Queue != 1024 || c.Idle != 10*time.Second ||
		c.Grace != 500*time.Millisecond || c.CloseGrace != 5*time.Second || c.Stuck != 64 || c.Timeout != 0 || c.Overflow != Block {
		t.Errorf("defaults are %+v", c)
	}
	if s := p.Stats(); s.Max != c.Max || s.State != Open {
		t.Errorf("Stats() = %+v", s)
	}
}

// TestNeverMoreThanMax: no more workers than Max run, however many bring tasks at once.
func TestNeverMoreThanMax(t *testing.T) {
	t.Parallel()
	for range 20 {
		p := open(t, Config{Max: 3, Queue: 16})
		var running, most atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					if err := p.Go(bg, func() {
						n := running.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						runtime.Gosched()
						running.Add(-1)
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := p.Drain(bg); err != nil {
			t.Error(err)
		}
		if most.Load() > 3 {
			t.Fatalf("%d bodies ran at once, want at most 3", most.Load())
		}
	}
}

// TestFewStarts: tasks that come one after the other find a worker, and do not
// start one each.
func TestFewStarts(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4})
	f := NewFunc(p, fact)
	for range 1000 {
		if _, err := f.Call(bg, 5); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hired > 4 {
		t.Errorf("%d workers were started for 1000 tasks, one after the other", p.hired)
	}
}

// TestNothingRunsAfterTheEnd: a pool that has ended runs nothing, whatever
// submits race with the end.
func TestNothingRunsAfterTheEnd(t *testing.T) {
	t.Parallel()
	for round := range 60 {
		p := open(t, Config{Max: 4, Queue: 32})
		var over atomic.Bool
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					err := p.Go(bg, func() {
						if over.Load() {
							t.Error("a task runs after the pool has ended")
						}
					})
					if err != nil {
						if !errors.Is(err, bullpen.ErrClosed) {
							t.Errorf("Go: %v", err)
						}
						return
					}
				}
			})
		}
		end := []func() error{p.Close, func() error { return p.Stop(bg) }, func() error { return p.Drain(bg) }}[round%3]
		if err := end(); err != nil {
			t.Error(err)
		}
		over.Store(true)
		all.Wait()
	}
}

// TestViewWhileBusy: with all workers busy, and while the pool drains, its view answers
// and submits are refused at once.
func TestViewWhileBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2})
		release := hold(t, p, 2)
		begun := time.Now()
		if s := p.Stats(); s.Busy != 2 || s.State != Open || p.Capacity() != 0 {
			t.Errorf("Stats() = %+v", s)
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Drain(bg) }() // the test waits for it
		synctest.Wait()
		if err := p.Go(bg, func() {}); !errors.Is(err, bullpen.ErrClosed) {
			t.Errorf("Go while the pool drains: %v", err)
		}
		if p.State() != Draining || time.Since(begun) > 0 {
			t.Errorf("state %v after %v", p.State(), time.Since(begun))
		}
		release()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOldHandle: a handle of a task that was taken reaches nothing of the
// task that uses its memory now.
func TestOldHandle(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	f := NewFunc(p, func(_ context.Context, n int) (int, error) { return n, nil })
	for n := range 1000 {
		old, err := f.Submit(bg, n)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := old.Take(bg); v != n || err != nil {
			t.Fatal(v, err)
		}
		next, err := f.Submit(bg, -n)
		if err != nil {
			t.Fatal(err)
		}
		old.Cancel(errors.New("too late"))
		if _, err := old.Wait(bg); !errors.Is(err, ErrTaken) {
			t.Fatalf("an old handle gave %v", err)
		}
		if v, err := next.Take(bg); v != -n || err != nil {
			t.Fatalf("the next task gave %d, %v", v, err)
		}
	}
}

// TestBigAndSmall: a big batch does not starve a lone task.
func TestBigAndSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2})
		big := NewFunc(p, func(context.Context, int) (int, error) { sleep(time.Millisecond); return 0, nil })
		done := make(chan error, 1)
		go func() { // the test waits for its answer
			_, err := big.All(bg, make([]int, 4000))
			done <- err
		}()
		sleep(50 * time.Millisecond)
		begun := time.Now()
		if _, err := NewFunc(p, fact).Call(bg, 5); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("a task waited %v for a batch of 2 s", took)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestGroupDeadline: the end of a group's context ends the wait, with an
// outcome for each task.
func TestGroupDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2})
		ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
		defer cancel()
		f := NewFunc(p, func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		g := f.Group(ctx, GroupConfig{Errors: AllErrors})
		for n := range 5 {
			if err := g.Go(n); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if _, err := g.Wait(); err == nil {
			t.Error("Wait() = nil after the deadline")
		}
		if took := time.Since(begun); took > 60*time.Millisecond {
			t.Errorf("Wait took %v", took)
		}
		if errs := g.Errors(); len(errs) != 5 {
			t.Errorf("%d outcomes of 5 tasks: %v", len(errs), errs)
		}
	})
}
