package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// nests are ways to run f with an argument from a task of its own pool and wait,
// with a context that is not the task's.
var nests = map[string]func(f *Func[int, int], depth int) (int, error){
	"call": func(f *Func[int, int], depth int) (int, error) { return f.Call(bg, depth) },
	"call with another context": func(f *Func[int, int], depth int) (int, error) {
		ctx, cancel := context.WithTimeout(bg, time.Hour)
		defer cancel()
		return f.Call(ctx, depth)
	},
	"future": func(f *Func[int, int], depth int) (int, error) {
		future, err := f.Submit(bg, depth)
		if err != nil {
			return 0, err
		}
		return future.Wait(bg)
	},
	"group": func(f *Func[int, int], depth int) (int, error) {
		g := f.Group(bg, GroupConfig{})
		if err := g.Go(depth); err != nil {
			return 0, err
		}
		results, err := g.Wait()
		return results[0], err
	},
	"all": func(f *Func[int, int], depth int) (int, error) {
		results, err := f.All(bg, []int{depth})
		return results[0], err
	},
	"map": func(f *Func[int, int], depth int) (int, error) {
		for v, err := range f.Map(bg, slices.Values([]int{depth})) {
			return v, err
		}
		return 0, nil
	},
}

// TestNestedWithoutContext: tasks that wait for others in their own pool
// with a context that is not theirs, or from a closure that has none, five deep, in
// a pool of one worker.
func TestNestedWithoutContext(t *testing.T) {
	t.Parallel()
	for name, nest := range nests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nestFiveDeep(t, nest) })
		})
	}
}

func nestFiveDeep(t *testing.T, nest func(f *Func[int, int], depth int) (int, error)) {
	t.Helper()
	p := open(t, Config{Max: 1})
	var f *Func[int, int]
	f = NewFunc(p, func(_ context.Context, depth int) (int, error) {
		if depth == 0 {
			return 1, nil
		}
		n, err := nest(f, depth-1)
		return n + 1, err
	})
	done := make(chan int, 1)
	if err := p.Go(bg, func() {
		n, err := nest(f, 4)
		if err != nil {
			t.Error(err)
		}
		done <- n
	}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if n := <-done; n != 5 {
		t.Errorf("nested tasks gave %d, want 5", n)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if err := p.Drain(bg); err != nil {
		t.Error(err)
	}
	if n := p.nesting.Load(); n != 0 {
		t.Errorf("%d workers nest after the end", n)
	}
}

// TestLongTasksAreNoStall: callers from outside who wait behind long tasks get no
// worker beyond the maximum.
func TestLongTasksAreNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2})
		f := NewFunc(p, func(context.Context, int) (int, error) { sleep(10 * time.Second); return 1, nil })
		for range 6 {
			go func() { _, _ = f.Call(bg, 1) }() // the bubble waits for them
		}
		most := 0
		for range 30 {
			sleep(time.Second)
			most = max(most, p.counts().size())
		}
		if most != 2 {
			t.Errorf("%d workers, want 2", most)
		}
	})
}

// TestPokedWhileCanceled pokes a caller while the context of his task ends.
func TestPokedWhileCanceled(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Max: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	gate := make(chan struct{})
	defer close(gate)
	f := NewFunc(p, func(_ context.Context, wait bool) (int, error) {
		if wait {
			<-gate
		}
		return 0, nil
	})
	if _, err := f.Submit(bg, true); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		ctx, cancel := context.WithCancel(bg)
		future, err := f.Submit(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { // ends when the task has: the loop waits for it
			_, err := future.Take(bg)
			ended <- err
		}()
		h := &future.task.head
		for h.word.Load()&hasWaiter == 0 {
			runtime.Gosched() // until he waits
		}
		cancel()
		patience := time.After(20 * time.Second)
		for over := false; !over; {
			h.poke()
			select {
			case err := <-ended:
				if over = true; !errors.Is(err, context.Canceled) {
					t.Fatalf("task %d: %v, want that it was canceled", n, err)
				}
			case <-patience:
				t.Fatalf("task %d: its caller does not learn of its end", n)
			default:
			}
		}
	}
}
