package pool

import (
	"context"
	"fmt"
	"time"
)

// Target is something that tasks can be submitted to: a *[Pool], a *[Lane] or a [Submitter].
type Target interface{ at() *target }

// Options configure the tasks submitted by a [Submitter]. Zero fields keep the settings of the
// pool or the lane.
type Options struct {
	// Name is the kind of the tasks. It appears in statistics and errors. Use few names:
	// each costs some kilobytes.
	Name string
	// Timeout is the maximum run time of each task. A negative value means none, whatever
	// the lane and the pool specify.
	Timeout time.Duration
	// Priority orders the waiting tasks.
	Priority Priority
	// Delay is how long tasks wait before they are queued. In the meantime each occupies a
	// place of the queue, but DropOldest does not drop it. A full queue with CallerRuns
	// refuses delayed tasks.
	Delay time.Duration
}

// Submitter is a pool or a lane with options. The methods With make it; the zero value accepts
// no tasks.
type Submitter struct{ target *target }

func (p Submitter) at() *target { return p.target }

// target says where tasks wait and how they run. It is immutable.
type target struct {
	pool     *Pool
	lane     *Lane // nil for the pool's own queue
	kind     *kind
	timeout  time.Duration
	priority Priority
	delay    time.Duration
}

func (p *Pool) at() *target { return &p.main }

// With returns a submitter with the options o. It costs a map lookup, so keep it and use
// it for all tasks of a kind.
func (p *Pool) With(o Options) Submitter { return p.main.with(o) }

// With returns a submitter with the options of p, changed by o.
func (p Submitter) With(o Options) Submitter { return p.target.with(o) }

func (at *target) with(o Options) Submitter {
	next := *at
	if o.Name != "" {
		next.kind = at.pool.counters.kind(o.Name)
	}
	switch {
	case o.Timeout > 0:
		next.timeout = o.Timeout
	case o.Timeout < 0:
		next.timeout = 0
	}
	if o.Priority != Normal && o.Priority < priorities {
		next.priority = o.Priority
	}
	if o.Delay > 0 {
		next.delay = o.Delay
	}
	return Submitter{&next}
}

// enter checks the context of a caller: whether it has ended, and whether the caller is a
// task of this pool.
func (at *target) enter(ctx context.Context) error {
	if ctx.Done() != nil && ctx.Err() != nil {
		at.pool.counters.refused.Add(1)
		return fmt.Errorf("task %q: %w", at.kind.name, context.Cause(ctx))
	}
	if w := at.pool.workerOf(ctx); w != nil {
		w.nests()
	}
	return nil
}

// workerOf returns the worker of this pool whose task uses ctx, or nil.
func (p *Pool) workerOf(ctx context.Context) *worker {
	if ctx == context.Background() {
		return nil
	}
	w, _ := ctx.Value(workerKey{}).(*worker)
	if w == nil || w.pool != p {
		return nil
	}
	return w
}

// put puts an item into a queue. It returns nil if and only if the item was accepted.
func (at *target) put(ctx context.Context, h *head, it item) error {
	if ctx != context.Background() {
		if err := at.enter(ctx); err != nil {
			return err
		}
	}
	if at.lane != nil || at.delay > 0 {
		return at.putElsewhere(ctx, h, it)
	}
	q := at.pool.shard()
	if h != nil {
		h.queue = q
	}
	if q.in.used.Load() == 0 && at.pool.hand(it, false) {
		return nil
	}
	q.in.mu.Lock()
	if q.in.room <= 0 {
		q.in.mu.Unlock()
		return q.admission.pass(ctx, at, q, it)
	}
	q.push(at.priority, it)
	q.in.mu.Unlock()
	at.pool.call()
	return nil
}
