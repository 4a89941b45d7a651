package api

import (
	"context"
	"strconv"
	"sync"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// waits tracks the requests that wait or follow, in order to end them when the daemon
// stops and to bound their number. This is cheaper than a goroutine for each.
type waits struct {
	mu    sync.Mutex
	all   map[*waiting]struct{} // guarded by mu
	ended bool                  // guarded by mu
}

// waiting is one request that waits.
type waiting struct{ cancel context.CancelFunc }

// startWaiting registers cancel to be called when the daemon stops; call end when the
// wait is over. It returns a problem if too many requests wait.
func (a *API) startWaiting(cancel context.CancelFunc) (*waiting, *problem.Problem) {
	if c := a.waits.begin(cancel, a.config.MaxWaiting); c != nil {
		return c, nil
	}
	cancel()
	return nil, problem.New(problem.Rate, "The maximum number of requests ("+strconv.Itoa(a.config.MaxWaiting)+") already wait for jobs or follow them: try again later, or without waiting.")
}

// begin registers cancel to be called when the daemon stops, until end. It returns
// nil if most requests already wait.
func (w *waits) begin(cancel context.CancelFunc, most int) *waiting {
	c := &waiting{cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		cancel()
		return c
	}
	if len(w.all) >= most {
		return nil
	}
	if w.all == nil {
		w.all = make(map[*waiting]struct{})
	}
	w.all[c] = struct{}{}
	return c
}

// end removes c, and cancels it.
func (w *waits) end(c *waiting) {
	w.mu.Lock()
	delete(w.all, c)
	w.mu.Unlock()
	c.cancel()
}

// endAll cancels all waiting requests, and all later ones.
func (w *waits) endAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.all {
		c.cancel()
	}
}
