package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestStopTellsAll: in each ending every caller gets an
// outcome: what waits never started.
func TestStopTellsAll(t *testing.T) {
	t.Parallel()
	for _, c := range []ending{
		{"drain", func(p *Pool) error { return p.Drain(bg) }, wantNone, wantNone},
		{"stop", func(p *Pool) error { return p.Stop(bg) }, wantNone, wantClosed},
		{"close", (*Pool).Close, wantCanceled, wantClosed},
		{"stop with a deadline", func(p *Pool) error {
			ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
			defer cancel()
			return p.Stop(ctx)
		}, wantCanceled, wantClosed},
		{"drain with a deadline", func(p *Pool) error {
			ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
			defer cancel()
			return p.Drain(ctx)
		}, wantCanceled, wantClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.test)
		})
	}
}

// ending is a way to end a pool, with what the callers get.
type ending struct {
	name            string
	end             func(*Pool) error
	running, queued func(*testing.T, error)
}

// test ends a pool of two workers with twenty tasks.
func (c ending) test(t *testing.T) {
	p := open(t, Config{Max: 2})
	f := NewFunc(p, func(ctx context.Context, d time.Duration) (int, error) {
		select {
		case <-time.After(d):
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	var futures []Future[int]
	for range 20 {
		future, err := f.Submit(bg, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, future)
	}
	synctest.Wait()
	err := c.end(p)
	if strings.HasSuffix(c.name, "with a deadline") {
		lost := "2 tasks"
		if c.name == "drain with a deadline" {
			lost = "20 tasks"
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), lost) {
			t.Errorf("%s: %v, want that %s were aborted", c.name, err, lost)
		}
	} else if err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	for i, future := range futures {
		select {
		case <-future.Done():
		default:
			t.Fatalf("task %d has no outcome after the pool has ended", i)
		}
		_, err := future.Wait(bg)
		if i < 2 {
			c.running(t, err)
		} else {
			c.queued(t, err)
		}
	}
	if _, err := f.Submit(bg, 0); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("Submit to a pool that has ended: %v", err)
	}
}

func wantNone(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("error is %v, want none", err)
	}
}

func wantClosed(t *testing.T, err error) {
	t.Helper()
	wantNeverStarted(t, err, bullpen.ErrClosed)
}

func wantCanceled(t *testing.T, err error) {
	t.Helper()
	wantOutcome(t, err, bullpen.Canceled)
}

// TestCloseNamesWhatIsStuck: Close returns at its grace and says what goes on.
func TestCloseNamesWhatIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Max: 2, CloseGrace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		stubborn := NewFunc(p.With(Options{Name: "stubborn"}), func(context.Context, int) (int, error) { <-release; return 5, nil })
		future, err := stubborn.Submit(bg, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Go(bg, func() { <-release }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		err = p.Close()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
		if err == nil || fmt.Sprint(err) != `pool "pool" is closed, but 2 bodies still run after their cancellation: stubborn in pool-1, task in pool-2` {
			t.Errorf("Close() = %v", err)
		}
		_, err = future.Wait(bg)
		wantOutcome(t, err, bullpen.Canceled)
		close(release)
		synctest.Wait()
		if _, again := future.Wait(bg); again == nil {
			t.Error("the late end of a body has changed the outcome")
		}
		if n := p.stuck.Load(); n != 0 {
			t.Errorf("%d bodies are stuck after all returned", n)
		}
	})
}

// TestOverrunAtTheGrace has tasks that overrun at the moment when Close gives them
// up: one outcome each, of one of the two.
func TestOverrunAtTheGrace(t *testing.T) {
	t.Parallel()
	for range 100 {
		p, err := New(Config{Max: 2, CloseGrace: 4 * time.Millisecond, Grace: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		f := NewFunc(p.With(Options{Timeout: 4 * time.Millisecond}), func(context.Context, int) (int, error) { <-release; return 0, nil })
		future, err := f.Submit(bg, 1)
		if err != nil {
			t.Fatal(err)
		}
		done := future.Done()
		ended := make(chan error, 1)
		go func() { // the test waits for its answer
			<-done
			_, err := future.Wait(bg)
			ended <- err
		}()
		_ = p.Close() // it may name the body
		err = <-ended
		if o, started := bullpen.OutcomeOf(err); !started || o != bullpen.Timeout && o != bullpen.Canceled {
			// Close may also come before the task has started.
			wantNeverStarted(t, err, bullpen.ErrClosed)
		}
		close(release)
	}
}
