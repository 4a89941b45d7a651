package pool

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

var errSour = errors.New("sour")

// groupTargets are the ways in which tasks of a group travel.
func groupTargets(t *testing.T, c Config) map[string]Target {
	t.Helper()
	p := open(t, c)
	l, err := p.Lane(LaneConfig{Name: "side", Limit: 2, Queue: c.Queue, Overflow: c.Overflow})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Target{
		"pool":    p,
		"lane":    l,
		"timeout": p.With(Options{Timeout: time.Minute}),
		"delay":   p.With(Options{Delay: time.Microsecond}),
		"low":     p.With(Options{Name: "low", Priority: Low}),
	}
}

func TestGroupResultsInOrder(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 4}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFunc(on, func(_ context.Context, n int) (int, error) { return n * n, nil })
			for _, n := range []int{0, 1, 2, 63, 64, 65, 1000} {
				g := f.Group(context.Background(), GroupConfig{Errors: AllErrors})
				for i := range n {
					if err := g.Go(i); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // Wait may be called again
					r, err := g.Wait()
					if err != nil || len(r) != n {
						t.Fatalf("%d results of %d, error %v", len(r), n, err)
					}
					for i, v := range r {
						if v != i*i {
							t.Fatalf("result %d is %d", i, v)
						}
					}
				}
				if err := g.Go(1); !errors.Is(err, ErrGroupOver) {
					t.Fatalf("Go after Wait: %v", err)
				}
			}
		})
	}
}

// trouble is a body that ends in the way that its argument says.
func trouble(_ context.Context, n int) (int, error) {
	switch n % 5 {
	case 1:
		return 0, errSour
	case 2:
		panic(errSour)
	case 3:
		runtime.Goexit()
	case 4:
		panic(nil)
	}
	return n, nil
}

func TestGroupTellsEachError(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 3}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewFunc(on, trouble).Group(context.Background(), GroupConfig{Errors: AllErrors})
			for i := range 200 {
				if err := g.Go(i); err != nil {
					t.Fatal(err)
				}
			}
			r, err := g.Wait()
			wantTrouble(t, r, err, g.Errors(), 200)
		})
	}
}

func wantTrouble(t *testing.T, r []int, err error, errs []error, n int) {
	t.Helper()
	if len(r) != n || len(errs) != n || !errors.Is(err, errSour) {
		t.Fatalf("%d results, %d errors, %v", len(r), len(errs), err)
	}
	for i, err := range errs {
		switch i % 5 {
		case 0:
			if err != nil || r[i] != i {
				t.Errorf("task %d: %d, %v", i, r[i], err)
			}
		case 1:
			wantOutcome(t, err, bullpen.Failed)
		default:
			if te := wantTaskError(t, err, bullpen.Panic); te != nil && te.Stack == "" {
				t.Errorf("task %d has no stack", i)
			}
		}
	}
}

func TestGroupFirstError(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 20}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := Submitter{on.at()}
			g := at.Group(context.Background(), GroupConfig{})
			running := make(chan struct{})
			var ended error
			if err := g.Go(func(ctx context.Context) error {
				close(running)
				<-ctx.Done() // the failure ends it
				ended = context.Cause(ctx)
				return ctx.Err()
			}); err != nil {
				t.Fatal(err)
			}
			<-running
			if err := g.Go(func(context.Context) error { return errSour }); err != nil {
				t.Fatal(err)
			}
			var refused error
			for range 100 {
				if refused = g.Go(func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}); refused != nil {
					break
				}
			}
			err := g.Wait()
			var which *IndexError
			if !errors.As(err, &which) || which.Index != 1 || !errors.Is(err, errSour) {
				t.Errorf("Wait: %v", err)
			}
			if !errors.Is(ended, errSour) {
				t.Errorf("the context ended with %v", ended)
			}
			errs := g.Errors()
			if len(errs) == 0 {
				t.Fatal("there are no errors")
			}
			wantOutcome(t, errs[0], bullpen.Canceled)
			for _, err := range errs[2:] {
				if _, started := bullpen.OutcomeOf(err); err != nil && started {
					t.Errorf("a task that waited: %v", err)
				}
			}
		})
	}
}

// TestGroupCanceledAtOnce: what waits ends although all workers are busy.
func TestGroupCanceledAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pool", "timeout", "low", "lane", "delay"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, Config{Max: 1})
			on := map[string]Target{
				"pool": p, "timeout": p.With(Options{Timeout: time.Minute}), "low": p.With(Options{Priority: Low}),
				"delay": p.With(Options{Delay: time.Hour}),
			}[name]
			if name == "lane" {
				l, err := p.Lane(LaneConfig{Name: "side"})
				if err != nil {
					t.Fatal(err)
				}
				on = l
			}
			release := hold(t, p, 1)
			defer release()
			ctx, cancel := context.WithCancelCause(context.Background())
			g := NewFunc(on, trouble).Group(ctx, GroupConfig{})
			for range 100 {
				if err := g.Go(0); err != nil {
					t.Fatal(err)
				}
			}
			cancel(errSour)
			r, err := g.Wait()
			if len(r) != 100 || !errors.Is(err, errSour) {
				t.Fatalf("%d results, %v", len(r), err)
			}
			for _, err := range g.Errors() {
				wantNeverStarted(t, err, errSour)
			}
			if err := g.Go(0); err == nil {
				t.Error("a group that has ended takes a task")
			}
			eventually(t, "an empty queue", func() bool { return p.Stats().Queued == 0 })
		})
	}
}

func TestGroupLimit(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 8}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now, most atomic.Int64
			g := Submitter{on.at()}.Group(context.Background(), GroupConfig{Limit: 2})
			for range 300 {
				if err := g.Go(func(context.Context) error {
					n := now.Add(1)
					defer now.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					runtime.Gosched()
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Wait(); err != nil || most.Load() > 2 {
				t.Errorf("%d at once, error %v", most.Load(), err)
			}
		})
	}
}

// TestGroupLimitEnds: who is blocked by the limit gets away when the context ends.
func TestGroupLimitEnds(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	release := hold(t, p, 1)
	defer release()
	ctx, cancel := context.WithCancelCause(context.Background())
	g := p.Group(ctx, GroupConfig{Limit: 1})
	if err := g.Go(func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() {})
	go cancel(errSour) // ends at once
	if err := g.Go(func(context.Context) error { return nil }); err == nil {
		// The first may have been taken back before; then this one may not run either.
		t.Log("accepted after the first was taken back")
	} else if !errors.Is(err, errSour) {
		t.Errorf("refused with %v", err)
	}
	if err := g.Wait(); !errors.Is(err, errSour) {
		t.Errorf("Wait: %v", err)
	}
}

// TestNestedGroups: tasks that wait for groups of their own do not hang, however
// few workers there are.
func TestNestedGroups(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 1, Queue: 4}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := Submitter{on.at()}
			var n atomic.Int64
			var nest func(depth int) func(context.Context) error
			nest = func(depth int) func(context.Context) error {
				return func(ctx context.Context) error {
					n.Add(1)
					if depth == 0 {
						return nil
					}
					g := at.Group(ctx, GroupConfig{})
					for range 3 {
						if err := g.Go(nest(depth - 1)); err != nil {
							return err
						}
					}
					return g.Wait()
				}
			}
			if err := nest(4)(context.Background()); err != nil || n.Load() != 121 {
				t.Errorf("%d tasks, %v", n.Load(), err)
			}
		})
	}
}

// TestGroupGrowsFromInside: tasks add tasks to their own group while Wait waits.
func TestGroupGrowsFromInside(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Max: 2}).Group(context.Background(), GroupConfig{})
	var n atomic.Int64
	var grow func(depth int) func(context.Context) error
	grow = func(depth int) func(context.Context) error {
		return func(context.Context) error {
			n.Add(1)
			if depth == 0 {
				return nil
			}
			return errors.Join(g.Go(grow(depth-1)), g.Go(grow(depth-1)))
		}
	}
	if err := g.Go(grow(8)); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil || n.Load() != 511 {
		t.Errorf("%d tasks, %v", n.Load(), err)
	}
}
