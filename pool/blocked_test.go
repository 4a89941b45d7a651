package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// TestEndedWhileQueued: a task whose caller has gone is not started, although
// nobody waits for it.
func TestEndedWhileQueued(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	release := hold(t, p, 1)
	ctx, cancel := context.WithCancel(bg)
	ran := false
	future, err := Submit(ctx, p, func(context.Context) (int, error) { ran = true; return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	release()
	if err := p.Drain(bg); err != nil {
		t.Fatal(err)
	}
	_, err = future.Wait(bg)
	wantNeverStarted(t, err, context.Canceled)
	if ran {
		t.Error("the task ran")
	}
}

// TestBlockedOrPassed hammers a queue of one: callers that block while workers take
// the task straight from the callers' side are never forgotten.
func TestBlockedOrPassed(t *testing.T) {
	t.Parallel()
	for range 200 {
		p := open(t, Config{Max: 2, Queue: 1})
		var ran atomic.Int64
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for range 50 {
					if err := p.Go(bg, func() { ran.Add(1) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := p.Drain(bg); err != nil || ran.Load() != 300 {
			t.Fatalf("%d of 300 tasks ran: %v", ran.Load(), err)
		}
	}
}
