package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestGroupEndings: whatever ends the pool in whatever moment, each accepted task
// has one outcome and Wait returns.
func TestGroupEndings(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 1))
	for round := range 60 {
		c := Config{Max: 1 + r.IntN(4), Queue: 1 + r.IntN(40), Grace: time.Millisecond}
		c.Overflow = Overflow(r.IntN(4))
		opts := Options{Priority: Priority(r.IntN(3))}
		if r.IntN(3) == 0 {
			opts.Timeout = time.Minute
		}
		end, rule, n := r.IntN(5), ErrorRule(r.IntN(2)), 1+r.IntN(300)
		if end == 3 {
			c.CloseGrace = time.Millisecond
		}
		t.Run(fmt.Sprintf("%d %v", round, c.Overflow), func(t *testing.T) {
			t.Parallel()
			endGroup(t, c, opts, GroupConfig{Errors: rule, Limit: -1}, end, n)
		})
	}
}

func endGroup(t *testing.T, c Config, o Options, gc GroupConfig, end, n int) {
	t.Helper()
	p := open(t, c)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stuck := make(chan struct{})
	var ran [300]atomic.Int32
	f := NewFunc(p.With(o), func(ctx context.Context, i int) (int, error) {
		ran[i].Add(1)
		if i == n/2 && end == 3 && c.Overflow != CallerRuns {
			<-stuck // ignores its context
		}
		return trouble(ctx, i)
	})
	g := f.Group(ctx, gc)
	var accepted []int
	var ender sync.WaitGroup
	for i := range n {
		if i == n/2 {
			ender.Go(func() { finish(t, p, cancel, end) })
		}
		if c.Overflow == CallerRuns && i%5 == 3 {
			continue // it would end this goroutine
		}
		if g.Go(i) == nil {
			accepted = append(accepted, i)
		}
	}
	r, _ := g.Wait() // the errors are checked one by one
	errs := g.Errors()
	close(stuck)
	ender.Wait()
	if len(r) != len(accepted) {
		t.Fatalf("%d results of %d tasks", len(r), len(accepted))
	}
	for k, i := range accepted {
		var err error
		if errs != nil {
			err = errs[k]
		}
		_, started := bullpen.OutcomeOf(err)
		if (ran[i].Load() == 1) != started && !errors.Is(err, errForsaken) { // such a one may be just about to run
			t.Errorf("task %d ran %d times, and ended with %v", i, ran[i].Load(), err)
		}
		if err == nil && (i%5 != 0 || r[k] != i) {
			t.Errorf("task %d has the value %d", i, r[k])
		}
	}
}

func finish(t *testing.T, p *Pool, cancel context.CancelCauseFunc, how int) {
	t.Helper()
	var err error
	switch how {
	case 0:
		err = p.Drain(context.Background())
	case 1:
		err = p.Stop(context.Background())
	case 2:
		err = p.Close()
	case 3:
		_ = p.Close() // it may name the body that is stuck
	case 4:
		cancel(errSour)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestGroupFromManyGoroutines(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 4, Queue: 16}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewFunc(on, func(_ context.Context, n int) (int, error) { return n, nil }).Group(context.Background(), GroupConfig{})
			var all sync.WaitGroup
			for k := range 8 {
				all.Go(func() {
					for i := range 100 {
						if err := g.Go(100*k + i); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			r, err := g.Wait()
			slices.Sort(r)
			if err != nil || len(r) != 800 {
				t.Fatalf("%d results, %v", len(r), err)
			}
			for i, v := range r {
				if v != i {
					t.Fatalf("%d is missing", i)
				}
			}
		})
	}
}
