package daemon

import (
	"context"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// limiter wraps the executor of a pool for Work, and bounds the jobs in hand of all
// calls of Work together.
type limiter struct {
	bullpen.Executor

	most  atomic.Int64  // maximum of jobs in hand; 0 for no bound
	extra atomic.Int64  // jobs in hand that wait for other jobs, and do not count towards the bound
	held  atomic.Int64  // jobs in hand
	taken atomic.Uint64 // total number of jobs submitted

	room     bullpen.RoomSignal
	watching atomic.Bool // a goroutine waits for room in the inner executor
}

// newLimiter returns a limiter for most jobs; 0 for no bound.
func newLimiter(e bullpen.Executor, most int) *limiter {
	g := &limiter{Executor: e}
	g.most.Store(int64(most))
	return g
}

// bound changes the maximum number of jobs in hand.
func (g *limiter) bound(most int) {
	g.most.Store(int64(most))
	g.room.Notify()
}

func (g *limiter) waiting(extra int) {
	g.extra.Store(int64(extra))
	g.room.Notify()
}

// places returns how many more jobs the bound allows.
func (g *limiter) places() int {
	most := g.most.Load()
	if most == 0 {
		return 1 << 30
	}
	return int(max(most+g.extra.Load()-g.held.Load(), 0))
}

// Capacity returns how many more jobs can be submitted.
func (g *limiter) Capacity() int { return min(g.Executor.Capacity(), g.places()) }

// Room signals room for another job, within the bound and in the inner executor.
func (g *limiter) Room() <-chan struct{} {
	inner := bullpen.Room(g.Executor)
	if inner == nil {
		return nil
	}
	c := g.room.Next()
	switch {
	case g.Executor.Capacity() == 0:
		if g.watching.CompareAndSwap(false, true) {
			go func() { // ends when the inner executor has room, or begins to end
				<-inner
				g.watching.Store(false)
				g.room.Notify()
			}()
		}
	case g.places() > 0:
		g.room.Notify()
	default: // a change of the bound or of the jobs in hand notifies
	}
	return c
}

// Submit submits a job.
func (g *limiter) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	g.taken.Add(1)
	g.held.Add(1)
	err := g.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
		g.held.Add(-1)
		done(r, shownError(err))
		g.room.Notify()
	})
	if err != nil {
		g.held.Add(-1)
		g.room.Notify()
	}
	return shownError(err)
}
