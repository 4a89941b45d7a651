package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// gate is the executor as one call of Work sees it: it keeps the bound of jobs in
// hand, and knows whether Work has been told that there is no room, so that it can
// be told when there is some again.
type gate struct {
	bullpen.Executor
	*counts

	jobs  int         // the most in hand, 0 for no bound; written before the gate is used
	stale atomic.Bool // there is another call of Work, which does not hear of the ends of these jobs
	freed func()      // called after such an end

	mu    sync.Mutex
	full  bool      // what Capacity said last; guarded by mu
	asked time.Time // when it said so; guarded by mu
}

// counts are of all gates of a generation.
type counts struct {
	held  atomic.Int64  // jobs in hand
	extra atomic.Int64  // so many of these wait for others, and do not count for the bound
	taken atomic.Uint64 // ever handed over
}

// newGate makes a gate.
func newGate(e bullpen.Executor, jobs int, c *counts, freed func()) *gate {
	return &gate{Executor: e, counts: c, jobs: jobs, freed: freed}
}

// Capacity tells how many more jobs may be handed over.
func (g *gate) Capacity() int {
	// The lock is held over the question, so that a pool which grows now is seen
	// either in its answer or by wasFull.
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.Executor.Capacity()
	if g.jobs > 0 {
		n = max(min(n, g.jobs+int(g.extra.Load()-g.held.Load())), 0)
	}
	if g.full = n == 0; g.full {
		g.asked = time.Now()
	}
	return n
}

// wasFull tells whether Work was told that there is no room, so long ago at least.
// It asks again by itself only when one of its jobs ends.
func (g *gate) wasFull(before time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.full && (before == 0 || time.Since(g.asked) >= before)
}

// Submit hands a job over.
func (g *gate) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	g.taken.Add(1)
	g.held.Add(1)
	err := g.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
		g.held.Add(-1)
		done(r, told(err))
		if g.stale.Load() {
			g.freed()
		}
	})
	if err != nil {
		g.held.Add(-1)
	}
	return told(err)
}
