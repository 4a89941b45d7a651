package api

import (
	"context"
	"sync"
)

// waits are the requests that wait for something, so that they can be answered
// when the daemon stops. That is cheaper than a goroutine for each.
type waits struct {
	mu    sync.Mutex
	all   map[*waiting]struct{} // guarded by mu
	ended bool                  // guarded by mu
}

// waiting is one request that waits.
type waiting struct{ cancel context.CancelFunc }

// begin has cancel called when the daemon stops, until end.
func (w *waits) begin(cancel context.CancelFunc) *waiting {
	c := &waiting{cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		cancel()
		return c
	}
	if w.all == nil {
		w.all = make(map[*waiting]struct{})
	}
	w.all[c] = struct{}{}
	return c
}

// end forgets c, and cancels it.
func (w *waits) end(c *waiting) {
	w.mu.Lock()
	delete(w.all, c)
	w.mu.Unlock()
	c.cancel()
}

// endAll cancels all that wait, and all that will.
func (w *waits) endAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.all {
		c.cancel()
	}
}
