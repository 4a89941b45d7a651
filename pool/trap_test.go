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

var bg = context.Background()

func wantOutcome(t *testing.T, err error, want bullpen.Outcome) {
	t.Helper()
	_ = wantTaskError(t, err, want)
}

func wantTaskError(t *testing.T, err error, want bullpen.Outcome) *bullpen.TaskError {
	t.Helper()
	var te *bullpen.TaskError
	if !errors.As(err, &te) || te.Outcome != want {
		t.Fatalf("the task ended with %v, want the outcome %v", err, want)
	}
	return te
}

func wantNeverStarted(t *testing.T, err, why error) {
	t.Helper()
	if _, started := bullpen.OutcomeOf(err); started || !errors.Is(err, why) {
		t.Fatalf("error is %v, want one that wraps %v and says that the task never started", err, why)
	}
}

// TestGoexit: a task that calls Goexit is answered, and its worker's place is filled,
// many times over.
func TestGoexit(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 2})
	f := NewFunc(p, func(_ context.Context, n int) (int, error) {
		if n%2 == 0 {
			runtime.Goexit()
		}
		return n, nil
	})
	for n := range 200 {
		switch r, err := f.Call(bg, n); {
		case n%2 == 0:
			wantOutcome(t, err, bullpen.Panic)
		case err != nil || r != n:
			t.Fatalf("task %d gave %d, %v", n, r, err)
		}
	}
	if h := p.counts(); h.size() > 2 {
		t.Errorf("%d workers, want at most 2", h.size())
	}
}

// TestPanics: each of many panicking tasks has its error, with value and stack, and is
// never seen as done without.
func TestPanics(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4})
	cause := errors.New("the cause")
	f := NewFunc(p, func(_ context.Context, v any) (int, error) { panic(v) })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				values := []any{"text", cause, nil, i}
				_, err := f.Call(bg, values[i%4])
				var te *bullpen.TaskError
				if !errors.As(err, &te) || te.Outcome != bullpen.Panic || te.Stack == "" {
					t.Errorf("panic of %v gave %v", values[i%4], err)
				}
				if i%4 == 1 && !errors.Is(err, cause) {
					t.Errorf("error %v does not wrap the value of panic", err)
				}
				var isNil *runtime.PanicNilError
				if i%4 == 2 && !errors.As(err, &isNil) {
					t.Errorf("panic(nil) gave %v", err)
				}
			}
		})
	}
	all.Wait()
}

// TestPanicOfClosure: a panic of a closure does not end the program, and is counted.
func TestPanicOfClosure(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	for range 3 {
		if err := p.Go(bg, func() { panic("no") }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Drain(bg); err != nil {
		t.Fatal(err)
	}
	if n := p.main.kind.total(bullpen.Panic); n != 3 {
		t.Errorf("%d panics counted, want 3", n)
	}
}

// TestOverrun: the caller of a task that runs over its deadline is answered then, the
// context ends, the worker's place is filled, the stuck body is counted, and its late end
// is harmless.
func TestOverrun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1})
		release := make(chan struct{})
		f := NewFunc(p.With(Options{Name: "slow", Timeout: 50 * time.Millisecond}), func(ctx context.Context, stubborn bool) (int, error) {
			<-ctx.Done()
			if stubborn {
				<-release
			}
			return 7, ctx.Err()
		})
		begun := time.Now()
		_, err := f.Call(bg, true)
		took := time.Since(begun)
		wantOutcome(t, err, bullpen.Timeout)
		var te *bullpen.TaskError
		if !errors.As(err, &te) || te.Task != "slow" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %#v", err)
		}
		if took < 50*time.Millisecond || took > 53*time.Millisecond {
			t.Errorf("answered after %v, want 50 to 53 ms", took)
		}
		if n := p.stuck.Load(); n != 1 {
			t.Errorf("%d bodies are stuck, want 1", n)
		}
		if r, err := Submit(bg, p, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		} else if v, err := r.Wait(bg); v != 1 || err != nil { // in the place that was filled
			t.Fatal(v, err)
		}
		close(release)
		synctest.Wait()
		if n := p.stuck.Load(); n != 0 {
			t.Errorf("%d bodies are stuck after all returned", n)
		}
		if n := p.counters.late.Load(); n != 1 {
			t.Errorf("%d late ends, want 1", n)
		}
		if n := p.kindNamed("slow").total(bullpen.Timeout); n != 1 {
			t.Errorf("%d timeouts counted, want 1", n)
		}
	})
}

// TestStuckIsBounded: beyond Config.Stuck bodies keep their worker's place, and
// callers are still answered at the deadline.
func TestStuckIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2, Stuck: 1, CloseGrace: time.Second})
		release := make(chan struct{})
		f := NewFunc(p.With(Options{Timeout: 10 * time.Millisecond}), func(context.Context, int) (int, error) {
			<-release
			return 0, nil
		})
		var futures []Future[int]
		for i := range 3 {
			future, err := f.Submit(bg, i)
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, future)
		}
		for _, future := range futures {
			_, err := future.Wait(bg)
			wantOutcome(t, err, bullpen.Timeout)
		}
		if h := p.counts(); h.size() != 2 || p.stuck.Load() != 3 {
			t.Errorf("%d workers with a place and %d stuck bodies, want 2 and 3", h.size(), p.stuck.Load())
		}
		close(release)
		synctest.Wait()
		if n := p.stuck.Load(); n != 0 {
			t.Errorf("%d bodies are stuck after all returned", n)
		}
	})
}

// TestNoTimeout: a timeout of zero means none, at every level.
func TestNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Timeout: time.Millisecond})
		slow := func(ctx context.Context, d time.Duration) (bool, error) {
			select {
			case <-time.After(d):
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		if ok, err := NewFunc(p.With(Options{Timeout: -1}), slow).Call(bg, time.Hour); !ok || err != nil {
			t.Errorf("without a timeout: %v, %v", ok, err)
		}
		_, err := NewFunc(p, slow).Call(bg, time.Hour)
		wantOutcome(t, err, bullpen.Timeout)
		if ok, err := NewFunc(p.With(Options{Timeout: 2 * time.Hour}), slow).Call(bg, time.Hour); !ok || err != nil {
			t.Errorf("with a long timeout: %v, %v", ok, err)
		}
	})
}

// TestDeadlineAtCompletion: tasks that end just at their deadline have one
// outcome each, and the pool goes on.
func TestDeadlineAtCompletion(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4, Queue: 4096})
	f := NewFunc(p.With(Options{Timeout: 2 * time.Millisecond}), func(ctx context.Context, n int) (int, error) {
		select {
		case <-time.After(time.Duration(n%5) * time.Millisecond):
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	var ended atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 100 {
				r, err := f.Call(bg, n)
				if o, started := bullpen.OutcomeOf(err); !started || o == bullpen.OK && r != n || o != bullpen.OK && o != bullpen.Timeout {
					t.Errorf("task %d: %d, %v", n, r, err)
				}
				ended.Add(1)
			}
		})
	}
	all.Wait()
	if ended.Load() != 800 {
		t.Errorf("%d outcomes, want 800", ended.Load())
	}
}

// TestNestedCalls: tasks that submit to their own pool and wait, five
// deep, in a pool of one worker and a queue of one.
func TestNestedCalls(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1, Queue: 1})
	var f *Func[int, int]
	f = NewFunc(p, func(ctx context.Context, depth int) (int, error) {
		if depth == 0 {
			return 1, nil
		}
		a, err := f.Call(ctx, depth-1)
		if err != nil {
			return 0, err
		}
		b, err := f.Call(ctx, depth-1)
		return a + b, err
	})
	for range 20 {
		if got, err := f.Call(bg, 5); err != nil || got != 32 {
			t.Fatalf("nested calls gave %d, %v", got, err)
		}
	}
	eventually(t, "the pool shrinks to its maximum", func() bool { return p.counts().size() <= 1 && p.nesting.Load() == 0 })
}

// eventually waits for what happens in other goroutines without an event.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// total sums a count over the stripes.
func (k *kind) total(o bullpen.Outcome) (n uint64) {
	for i := range k.stripes {
		n += k.stripes[i].outcomes[o].Load()
	}
	return n
}

func (p *Pool) kindNamed(name string) *kind { return p.counters.kind(name) }
