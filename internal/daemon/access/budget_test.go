package access

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flat checks that everything was given back.
func flat(t *testing.T, b *budget) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free != b.size || b.idle != 0 || len(b.waiting) != 0 || b.waits.Load() != 0 {
		t.Errorf("left over: %d of %d free, %d idle, %d waiting, %d counted", b.free, b.size, b.idle, len(b.waiting), b.waits.Load())
	}
}

func TestBudgetOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, 5*time.Second)
		ctx := t.Context()
		var done, old, young hold
		for _, h := range []struct {
			h *hold
			n int64
		}{{&old, 1}, {&young, 1}, {&done, 8}} {
			if err := b.take(ctx, h.h, h.n); err != nil {
				t.Fatal(err)
			}
		}
		order := make(chan string, 2)
		var all sync.WaitGroup
		all.Go(func() { _ = b.take(ctx, &young, 4); order <- "young"; b.give(&young, 0, true) }) // waited for below
		synctest.Wait()
		all.Go(func() { _ = b.take(ctx, &old, 6); order <- "old"; b.give(&old, 0, true) }) // waited for below
		synctest.Wait()
		b.give(&done, 0, true)
		all.Wait()
		if first, second := <-order, <-order; first != "old" || second != "young" {
			t.Errorf("order %s, %s", first, second)
		}
		flat(t, b)
	})
}

func TestBudgetEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, 5*time.Second)
		var full, late hold
		if err := b.take(t.Context(), &full, 10); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := b.take(t.Context(), &late, 1); !errors.Is(err, errNoRoom) || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := b.take(ctx, &late, 1); !errors.Is(err, errNoRoom) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if err := b.take(t.Context(), &full, 1); !errors.Is(err, errNoRoom) {
			t.Errorf("more than there is: %v", err)
		}
		b.give(&full, 0, true)
		b.give(&late, 0, true)
		if err := b.take(t.Context(), &late, 1); !errors.Is(err, errNoRoom) {
			t.Errorf("after the end: %v", err)
		}
		flat(t, b)
	})
}

// TestBudgetStandstill has two that hold half each and want the rest: the younger
// one is refused at once, and the older one goes on.
func TestBudgetStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, time.Hour)
		var old, young hold
		for _, h := range []*hold{&old, &young} {
			if err := b.take(t.Context(), h, 5); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { // waited for below
			if err := b.take(t.Context(), &old, 5); err != nil {
				t.Errorf("the older one: %v", err)
			}
			b.give(&old, 0, true)
		})
		synctest.Wait()
		if err := b.take(t.Context(), &young, 5); !errors.Is(err, errNoRoom) {
			t.Errorf("the younger one: %v", err)
		}
		b.give(&young, 0, true)
		all.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
		flat(t, b)
	})
}

// TestBudgetMoves has many bodies that want more than there is. Whatever they do,
// some get through, none waits for ever and nothing is lost.
func TestBudgetMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1000, 5*time.Second)
		var through, refused int
		var mu sync.Mutex // guards through and refused
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { // waited for below
				r := rand.New(rand.NewPCG(1, uint64(i)))
				var h hold
				defer b.give(&h, 0, true)
				for range 10 { // the others run while one waits
					if err := b.take(t.Context(), &h, 1+r.Int64N(60)); err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						return
					}
				}
				mu.Lock()
				through++
				mu.Unlock()
			})
		}
		all.Wait()
		if through == 0 || through+refused != 200 {
			t.Errorf("%d got through, %d were refused", through, refused)
		}
		flat(t, b)
	})
}
