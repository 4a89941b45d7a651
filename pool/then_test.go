package pool

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func text(_ context.Context, n int) (string, error) { return strconv.Itoa(n), nil }

// gated gives a future that ends when release is called.
func gated(t *testing.T, on Target, n int, failure error) (f Future[int], release func()) {
	t.Helper()
	open := make(chan struct{})
	f, err := Submit(context.Background(), on, func(context.Context) (int, error) {
		<-open
		return n, failure
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, func() { close(open) }
}

func TestThen(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 8}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			f, release := gated(t, on, 7, nil)
			s, err := Then(f, on, text)
			if err != nil {
				t.Fatal(err)
			}
			release()
			if v, err := s.Wait(ctx); v != "7" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			after, err := Then(s, on, func(_ context.Context, s string) (int, error) { return len(s), nil })
			if err != nil {
				t.Fatal(err)
			}
			<-after.Done()
			if v, err := after.Take(ctx); v != 1 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
}

func TestThenPassesFailuresOn(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4})
	never := func(context.Context, int) (string, error) {
		t.Error("fn ran")
		return "", nil
	}
	for name, body := range map[string]func(context.Context) (int, error){
		"error":  func(context.Context) (int, error) { return 0, errSour },
		"panic":  func(context.Context) (int, error) { panic(errSour) },
		"goexit": func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	} {
		f, err := Submit(context.Background(), p, body)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Then(f, p, never)
		if err != nil {
			t.Fatal(err)
		}
		_, want := f.Wait(context.Background())
		if _, err := s.Wait(context.Background()); err != want || err == nil { //nolint:errorlint // it is the same
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

func TestThenPanics(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	f, release := gated(t, p, 1, nil)
	s, err := Then(f, p, func(context.Context, int) (int, error) { panic(errSour) })
	if err != nil {
		t.Fatal(err)
	}
	release()
	_, err = s.Wait(context.Background())
	wantOutcome(t, err, bullpen.Panic)
}

func TestThenCanceled(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	f, release := gated(t, p, 1, nil)
	waits, err := Then(f, p, text)
	if err != nil {
		t.Fatal(err)
	}
	waits.Cancel(errSour)
	_, err = waits.Wait(context.Background())
	wantNeverStarted(t, err, errSour)
	release()
	if v, err := f.Wait(context.Background()); v != 1 || err != nil {
		t.Errorf("the first task: %d, %v", v, err)
	}
	running := make(chan struct{})
	runs, err := Then(f, p, func(ctx context.Context, _ int) (int, error) {
		close(running)
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	runs.Cancel(errSour)
	_, err = runs.Wait(context.Background())
	wantOutcome(t, err, bullpen.Canceled)
}

// TestThenAtAFullQueue: it waits for a place without occupying the worker who ended
// the first task.
func TestThenAtAFullQueue(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1, Queue: 1})
	f, release := gated(t, p, 1, nil)
	var all []Future[string]
	for range 20 {
		s, err := Then(f, p, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	release()
	values, err := WhenAll(context.Background(), all...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v != "1" {
			t.Error(v)
		}
	}
}

func TestThenAtAClosedPool(t *testing.T) {
	t.Parallel()
	p, other := open(t, Config{Max: 1}), open(t, Config{})
	f, release := gated(t, p, 1, nil)
	s, err := Then(f, other, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := s.Wait(context.Background()); !errors.Is(err, bullpen.ErrClosed) {
		t.Error(err)
	}
	if _, err := f.Take(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := Then(Future[int]{}, p, text); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if _, err := Then[int, int](f, p, nil); err == nil {
		t.Error("Then takes a nil function")
	}
}

func TestWhenAll(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 3})
	a, endA := gated(t, p, 1, nil)
	b, endB := gated(t, p, 2, errSour)
	c, endC := gated(t, p, 3, nil)
	defer endC()
	endA()
	endB()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	values, err := WhenAll(ctx, a, b, c)
	var errs Failures
	if !errors.As(err, &errs) || values[0] != 1 || errs[0] != nil || !errors.Is(errs[2], context.DeadlineExceeded) {
		t.Fatal(values, err)
	}
	wantOutcome(t, errs[1], bullpen.Failed)
	if values, err := WhenAll[int](ctx); len(values) != 0 || err != nil {
		t.Error(values, err)
	}
}

func TestWhenAny(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 3})
	ctx := context.Background()
	a, endA := gated(t, p, 1, nil)
	b, endB := gated(t, p, 2, errSour)
	defer endA()
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if i, _, err := WhenAny(short, a, b); i != -1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(i, err)
	}
	endB()
	i, _, err := WhenAny(ctx, a, b)
	if i != 1 {
		t.Error(i)
	}
	wantOutcome(t, err, bullpen.Failed)
	if i, _, err := WhenAny(ctx, a, b); i != 1 || !errors.Is(err, errSour) {
		t.Error("the second time: ", i, err)
	}
	if _, _, err := WhenAny[int](ctx); !errors.Is(err, ErrNoFutures) {
		t.Error(err)
	}
	if _, _, err := WhenAny(ctx, make([]Future[int], mostCases+1)...); err == nil {
		t.Error("too many futures are accepted")
	}
}

// TestWaitAnyNested: a task that waits for others of its pool does not hang.
func TestWaitAnyNested(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	f, err := Submit(context.Background(), p, func(ctx context.Context) (int, error) {
		inner, err := Submit(ctx, p, func(context.Context) (int, error) { return 5, nil })
		if err != nil {
			return 0, err
		}
		_, v, err := WhenAny(ctx, inner)
		return v, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Wait(context.Background()); v != 5 || err != nil {
		t.Error(v, err)
	}
}
