package pool

import (
	"context"
	"testing"
	"time"
)

// TestBlockedCallerIsSeen: who is blocked at a queue whose last tasks are taken at
// that moment gets a place, although nothing else happens.
func TestBlockedCallerIsSeen(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 2, Queue: 2})
	inner := NewFunc(p, func(_ context.Context, n int) (int, error) { return n, nil })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 300 {
		var last Future[int]
		for i := range 100 {
			f, err := inner.Submit(ctx, i)
			if err != nil {
				t.Fatal("a caller hangs at an empty queue: ", err)
			}
			last = f
			if i%3 == 2 {
				if _, err := f.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := last.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
