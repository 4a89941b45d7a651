package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// admission bounds how many items wait: in all shards of the pool together, or in a lane. A
// place is a credit. The callers' side of each queue holds some credits. A worker that
// takes an item returns its credit to freed, from where the next caller without credits
// collects them. So the bound is exact, and no single counter is written by all.
type admission struct {
	pool     *Pool
	bound    int
	overflow Overflow
	queues   []*queue // whose places these are

	// dead is the number of stale items in the queues. It may be too low for a moment, if a
	// worker takes out an item that has ended before forget has counted it.
	dead    atomic.Int64
	freed   atomic.Int64 // places returned
	delayed atomic.Int64 // places held by delayed tasks
	blocked atomic.Int64 // blocked callers in waiting; written with mu held

	mu      sync.Mutex
	waiting waitList // guarded by mu
	refusal error    // why no more items are accepted; guarded by mu
}

// free returns k places.
func (g *admission) free(k int) { g.freed.Add(int64(k)) }

// collect takes the places that were returned. If items were given back to the queue, the
// balance may be negative; then collect takes none.
func (g *admission) collect() int {
	n := g.freed.Swap(0)
	if n < 0 {
		g.freed.Add(n)
		return 0
	}
	return int(n)
}

// pass admits the item of a caller that found no place in q, according to the overflow
// rule. It returns nil if and only if the item was accepted.
func (g *admission) pass(ctx context.Context, at *target, q *queue, it item) error {
	if q.lane == nil && g.pool.hand(it, true) {
		return nil // a worker was free
	}
	g.mu.Lock()
	switch {
	case g.refusal != nil:
		err := g.refusal
		g.mu.Unlock()
		g.pool.counters.refused.Add(1)
		return err
	case g.waiting.n == 0 && g.fetch(q, func() { q.push(at.priority, it) }):
		g.mu.Unlock()
		q.called()
		return nil
	}
	overflow := g.overflow
	if overflow == DropOldest && g.delayed.Load() >= int64(g.bound) {
		overflow = Reject // all waiting tasks are delayed, and those are not dropped
	}
	switch overflow {
	case Block:
		return g.block(ctx, at, q, it)
	case DropOldest:
		return g.replace(ctx, at, q, it)
	case CallerRuns:
		g.mu.Unlock()
		return g.pool.runHere(it)
	default:
		g.mu.Unlock()
		g.pool.counters.refused.Add(1)
		g.pool.overload(at.kind, "refused")
		return fmt.Errorf("%w: %d tasks already wait, which is the maximum", bullpen.ErrOverloaded, g.bound)
	}
}

// fetch gets a place of q and calls use to fill it. It returns false if there is none. It
// retries because other callers may take the granted places first. mu is held.
func (g *admission) fetch(q *queue, use func()) bool {
	for g.grant(q) {
		q.in.mu.Lock()
		got := q.in.room > 0
		if got {
			use()
		}
		q.in.mu.Unlock()
		if got {
			return true
		}
	}
	return false
}

// grant gives at least one place to the callers' side of q, from those returned or held by
// other shards. mu is held.
func (g *admission) grant(q *queue) bool {
	q.in.mu.Lock()
	some := q.in.room > 0 // takeFresh has just returned places here
	q.in.mu.Unlock()
	if some {
		return true
	}
	n := g.collect()
	for i := 0; n == 0 && i < len(g.queues); i++ {
		if other := g.queues[i]; other != q {
			other.in.mu.Lock()
			n = (other.in.room + 1) / 2
			other.in.room -= n
			other.in.mu.Unlock()
		}
	}
	if n == 0 {
		return false
	}
	q.in.mu.Lock()
	q.in.room += n
	q.in.mu.Unlock()
	return true
}

// replace gives the place of the oldest item to the new one. mu is held on entry and
// released on return.
func (g *admission) replace(ctx context.Context, at *target, q *queue, it item) error {
	q.out.mu.Lock()
	old, ok := q.oldest()
	if ok {
		q.in.mu.Lock()
		q.in.room++
		q.push(at.priority, it)
		q.in.mu.Unlock()
	}
	q.out.mu.Unlock()
	g.mu.Unlock()
	if !ok {
		return g.pass(ctx, at, q, it) // workers have just taken all items
	}
	q.called()
	g.pool.overload(at.kind, "it took the place of the oldest task")
	g.pool.failed(old, fmt.Errorf("%w: a newer task took its place", bullpen.ErrOverloaded))
	return nil
}

// block waits for a place until ctx ends. mu is held on entry and released on return.
func (g *admission) block(ctx context.Context, at *target, q *queue, it item) error {
	c := &caller{at: at, item: it, queue: q, answer: make(chan error, 1)}
	g.waiting.push(c)
	g.blocked.Add(1)
	g.recall()
	g.mu.Unlock()
	// A worker may have returned places before it could see this caller.
	if g.freed.Load() > 0 {
		g.admit(1)
	}
	g.pool.counters.blocked.Add(1)
	defer g.pool.counters.blocked.Add(-1)
	g.pool.wakeKeeper()
	g.pool.callOne() // this processor has time for it now
	err := g.await(ctx, c)
	if err != nil {
		g.pool.counters.refused.Add(1)
	}
	return err
}

// recall takes the places from the callers' sides, so that no caller overtakes those who
// are blocked. mu is held.
func (g *admission) recall() {
	for _, q := range g.queues {
		q.in.mu.Lock()
		if n := q.in.room; n > 0 {
			q.in.room = 0
			g.free(n)
		}
		q.in.mu.Unlock()
	}
}

func (g *admission) await(ctx context.Context, c *caller) error {
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
	}
	g.mu.Lock()
	listed := c.listed
	if listed {
		g.waiting.remove(c)
		g.blocked.Add(-1)
	}
	g.mu.Unlock()
	if !listed {
		return <-c.answer // it was accepted or refused at the same time
	}
	return fmt.Errorf("no room in the queue: %w", context.Cause(ctx))
}

// admit queues the items of blocked callers, once at least slack places are free, and wakes
// them. The worker that frees the places does this, so that no later caller overtakes them,
// and none is woken in vain.
func (g *admission) admit(slack int) {
	if g.freed.Load() < int64(slack) {
		g.pool.wakeKeeper() // in case workers stop freeing places
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.collect()
	for ; n > 0 && g.waiting.n > 0; n-- {
		c := g.waiting.pop()
		g.blocked.Add(-1)
		if c.at.delay > 0 {
			c.answer <- g.pool.delay(c.at, c.queue, c.item)
			continue
		}
		c.queue.in.mu.Lock()
		c.queue.in.room++
		c.queue.push(c.at.priority, c.item)
		c.queue.in.mu.Unlock()
		if c.queue.lane != nil {
			c.queue.lane.list()
		}
		c.answer <- nil
	}
	if n > 0 {
		g.free(n)
	}
}

// slack returns how many places must be free before blocked callers are admitted. Waking a
// caller costs as much as several short tasks, so short tasks are admitted by the dozen,
// long ones one by one.
func (g *admission) slack(w *worker) int {
	if w.mean <= 0 || w.mean >= wakeWorth {
		return 1
	}
	return max(1, min(int(wakeWorth/w.mean), g.bound/2))
}

// close refuses blocked and future callers with err.
func (g *admission) close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refusal == nil {
		g.refusal = err
	}
	for _, q := range g.queues {
		q.close()
	}
	for c := g.waiting.pop(); c != nil; c = g.waiting.pop() {
		g.blocked.Add(-1)
		c.answer <- g.refusal
	}
}

// called calls a worker for an item that was just pushed.
func (q *queue) called() {
	if q.lane != nil {
		q.lane.list()
	}
	q.pool.call()
}
