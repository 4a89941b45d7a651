package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestDelay: tasks run when they are due, in the order of their times, also those
// of other priorities, in the pool's queue and in a lane.
func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1})
		l := openLane(t, p, LaneConfig{})
		begin := time.Now()
		got := make(chan string, 10)
		for _, c := range []struct {
			name  string
			on    interface{ With(Options) Submitter }
			after time.Duration
		}{
			{"d", p, 4 * time.Second}, {"a", l, time.Second}, {"c", p, 3 * time.Second}, {"b", p, 2 * time.Second},
			{"e", l, 5 * time.Second}, {"f", l, 6 * time.Second}, {"now", p, 0}, {"g", p, math.MaxInt64},
		} {
			with := c.on.With(Options{Name: c.name, Delay: c.after})
			if err := with.Go(bg, func() { got <- fmt.Sprint(c.name, " ", time.Since(begin)) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"now 0s", "a 1s", "b 2s", "c 3s", "d 4s", "e 5s", "f 6s"} {
			if has := <-got; has != want {
				t.Errorf("%q ran, want %q", has, want)
			}
		}
		if s := p.Stats(); s.Queued != 1 {
			t.Errorf("%d tasks wait, want the one of the far future", s.Queued)
		}
		if err := p.Stop(bg); err != nil {
			t.Error(err)
		}
		if s := p.Stats(); s.NeverStarted != 1 || s.Queued != 0 {
			t.Errorf("after the stop %d tasks never started and %d wait", s.NeverStarted, s.Queued)
		}
	})
}

// TestDelayEqual: tasks due at the same time keep their order.
func TestDelayEqual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1})
		l := openLane(t, p, LaneConfig{}).With(Options{Delay: time.Second})
		var order []int // written by the one worker
		for n := range 100 {
			if err := l.Go(bg, func() { order = append(order, n) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Drain(bg); err != nil {
			t.Error(err)
		}
		for n, got := range order {
			if n != got {
				t.Fatalf("task %d ran as number %d", got, n)
			}
		}
	})
}

// TestDelayedEndsAtOnce: a cancel and the end of the caller's context end a delayed
// task at once, and its place is free then, once.
func TestDelayedEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Queue: 2, Overflow: Reject, Help: true})
		l := openLane(t, p, LaneConfig{Queue: 2, Overflow: Reject})
		for name, on := range map[string]interface{ With(Options) Submitter }{"pool": p, "lane": l} {
			f := NewFunc(on.With(Options{Delay: time.Hour}), fact)
			begin := time.Now()
			for round := range 5 {
				ctx, cancel := context.WithCancel(bg)
				a, err := f.Submit(ctx, 1)
				if err != nil {
					t.Fatalf("%s, round %d: %v", name, round, err)
				}
				b, err := f.Submit(bg, 1)
				if err != nil {
					t.Fatalf("%s, round %d: %v", name, round, err)
				}
				if _, err := f.Submit(bg, 1); !errors.Is(err, bullpen.ErrOverloaded) {
					t.Fatalf("%s, round %d: a third task: %v", name, round, err)
				}
				cancel()
				synctest.Wait() // nobody waits for the task
				if n := p.delayed.n.Load(); n != 1 {
					t.Errorf("%s: %d tasks are delayed, want 1", name, n)
				}
				b.Cancel(errNil)
				b.Cancel(errNil)
				_, err = b.Take(bg)
				wantNeverStarted(t, err, errNil)
				_, err = a.Take(bg)
				wantNeverStarted(t, err, context.Canceled)
			}
			if d := time.Since(begin); d != 0 {
				t.Errorf("%s: it took %v", name, d)
			}
		}
		if n := len(p.delayed.heap) + len(p.delayed.tasks); n != 0 {
			t.Errorf("%d tasks are kept", n)
		}
	})
}

// TestDelayOverflow: what the rules of overflow mean for tasks with a delay.
func TestDelayOverflow(t *testing.T) {
	t.Parallel()
	for _, overflow := range []Overflow{Block, Reject, DropOldest, CallerRuns} {
		t.Run(overflow.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { delayOverflow(t, overflow) })
		})
	}
}

func delayOverflow(t *testing.T, overflow Overflow) {
	t.Helper()
	p := open(t, Config{Max: 1, Queue: 2, Overflow: overflow})
	release := hold(t, p, 1)
	defer release()
	late := NewFunc(p.With(Options{Delay: time.Minute}), fact)
	now := NewFunc(p, fact)
	first, err := now.Submit(bg, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := late.Submit(bg, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Second)
	defer cancel()
	third, err := late.Submit(ctx, 3)
	switch overflow {
	case Block:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third task: %v", err)
		}
	case DropOldest:
		_, err := first.Wait(bg)
		wantNeverStarted(t, err, bullpen.ErrOverloaded)
		if _, err := now.Submit(bg, 1); !errors.Is(err, bullpen.ErrOverloaded) {
			t.Errorf("where all places are of delayed tasks: %v", err)
		}
		third.Cancel(nil)
		if first, err = now.Submit(bg, 1); err != nil {
			t.Error(err)
		}
	case Reject, CallerRuns:
		if !errors.Is(err, bullpen.ErrOverloaded) {
			t.Errorf("a third task: %v", err)
		}
	}
	release()
	if r, err := first.Wait(bg); err != nil || r != 1 {
		t.Errorf("the first task: %d, %v", r, err)
	}
	begin := time.Now()
	if r, err := second.Wait(bg); err != nil || r != 2 || time.Since(begin) > time.Minute {
		t.Errorf("the second task: %d, %v, after %v", r, err, time.Since(begin))
	}
}

// TestBlockedDelayed: a caller with a delayed task who waited for a place brings it
// into the heap, not into the queue.
func TestBlockedDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{})
		l := openLane(t, p, LaneConfig{Limit: 1, Queue: 1})
		f := NewFunc(l.With(Options{Delay: time.Minute}), fact)
		begin := time.Now()
		for range 3 {
			if _, err := f.Submit(bg, 3); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(begin); d != 2*time.Minute {
			t.Errorf("the third one was accepted after %v", d)
		}
		if s := l.Stats(); s.Delayed != 1 || s.Queued != 1 {
			t.Errorf("%+v", s)
		}
		if err := p.Drain(bg); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d != 3*time.Minute {
			t.Errorf("drained after %v", d)
		}
	})
}
