package pool

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// leaks gives the contexts of bodies that have returned.
func leaks(p *Pool) *Func[int, context.Context] {
	return NewFunc(p, func(ctx context.Context, _ int) (context.Context, error) { return ctx, nil })
}

// TestLeakedContextOfGuest: a context that is used after the body that a caller ran
// has returned costs no other pool a worker.
func TestLeakedContextOfGuest(t *testing.T) {
	t.Parallel()
	a, b := open(t, Config{Max: 1, Help: true}), open(t, Config{Max: 1, Help: true})
	leak, next := leaks(a), leaks(b)
	for range 100 { // the race detector lets some guests go
		ctx, err := leak.Call(bg, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Go(ctx, func() {}); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Call(bg, 0); err != nil {
			t.Fatal(err)
		}
	}
	ran := make(chan struct{})
	if err := b.Go(bg, func() { close(ran) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ran:
	case <-time.After(20 * time.Second):
		t.Errorf("an accepted task does not run: %d places for workers, want 1", b.most())
	}
	if n, m := a.nesting.Load(), b.nesting.Load(); n != 0 || m != 0 {
		t.Errorf("%d and %d nesting tasks when none runs, want none", n, m)
	}
}

// TestLeakedContextWhileGuestsRun has contexts of earlier bodies in use while callers
// run others: what these count is gone when all have returned.
func TestLeakedContextWhileGuestsRun(t *testing.T) {
	t.Parallel()
	pools := []*Pool{open(t, Config{Max: 1, Help: true}), open(t, Config{Max: 1, Help: true})}
	leaked := make(chan context.Context, 64)
	var all sync.WaitGroup
	for i := range 4 {
		own, other := pools[i%2], pools[(i+1)%2]
		all.Go(func() {
			f := leaks(own)
			for range 300 {
				ctx, err := f.Call(bg, 0)
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case leaked <- ctx:
				case ctx := <-leaked:
					if err := own.Go(ctx, func() {}); err != nil {
						t.Error(err)
					}
					if err := other.Go(ctx, func() {}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, p := range pools {
		if err := p.Drain(bg); err != nil {
			t.Error(err)
		}
		if n := p.nesting.Load(); n != 0 {
			t.Errorf("%d nesting tasks in a pool that has ended, want none", n)
		}
		if n := p.Stats().Outcomes[bullpen.OK]; n < 600 {
			t.Errorf("%d tasks ended well, want 600 at least", n)
		}
	}
}
