package pool

import "context"

// failed records the error of a task.
func (g *FuncGroup[A, R]) failed(task any, err error) {
	g.mu.Lock()
	if g.fails == nil {
		g.fails = map[any]error{}
	}
	g.fails[task] = err
	g.mu.Unlock()
	if g.rule == FirstError && !g.stopped.Load() {
		g.stop(err, task)
	}
}

// stop ends the context and all waiting tasks. Only the first call has an effect.
func (g *FuncGroup[A, R]) stop(cause error, task any) {
	g.mu.Lock()
	if g.stopped.Load() {
		g.mu.Unlock()
		return
	}
	cause = notMine(cause)
	g.cause, g.first = cause, task
	g.stopped.Store(true)
	jobs := g.jobs
	g.mu.Unlock()
	g.span.cancel(cause)
	for _, j := range jobs {
		j.revoke(cause)
	}
	g.sweep()
}

func (g *FuncGroup[A, R]) sweepIfStopped() {
	if g.stopped.Load() {
		g.sweep() // the sweep of stop may have come too early
	}
}

// sweep withdraws the tasks that wait in the queue or were taken by workers in advance.
func (g *FuncGroup[A, R]) sweep() {
	if g.apart {
		return
	}
	p := g.span.pool
	p.guests.Add(1) // keeps the pool from ending before these are answered
	defer p.farewell()
	mine := func(it item) bool {
		c, ok := it.(*cell[A, R])
		return ok && c.slab.group == g
	}
	if g.queue.lane == nil {
		for _, w := range p.seats(nil) {
			w.relieve() // puts them back into the queue
		}
	}
	taken := g.queue.remove(mine)
	if g.queue.lane == nil && g.queue != p.shards[0] {
		taken = append(taken, p.shards[0].remove(mine)...) // relieve puts them there
	}
	err := g.stopError()
	for _, it := range taken {
		it.fail(err)
	}
}

// stopError returns the outcome of a task that did not start because of stop.
func (g *FuncGroup[A, R]) stopError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return notStarted(g.f.target.kind, g.cause)
}

// remove takes out the items that match, and frees their places.
func (q *queue) remove(match func(item) bool) (taken []item) {
	q.out.mu.Lock()
	if q.in.used.Load() != 0 {
		q.takeOver()
	}
	for pr := range q.out.levels {
		d := &q.out.levels[pr]
		if d.n == 0 {
			continue
		}
		kept := deque{}
		for d.n > 0 {
			if s := d.pop(); match(s.item) {
				taken = append(taken, s.item)
			} else {
				kept.push(s.item, s.stamp)
			}
		}
		*d = kept
		if d.n == 0 {
			q.out.used.Store(q.out.used.Load() &^ (1 << pr))
		}
	}
	q.out.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	q.admission.free(len(taken))
	if q.admission.blocked.Load() > 0 {
		q.admission.admit(1)
	}
	q.pool.lessWaits()
	return taken
}

// watchCaller stops the group when the caller's context ends.
func (g *FuncGroup[A, R]) watchCaller(ctx context.Context) {
	unhook := context.AfterFunc(ctx, func() { g.stop(context.Cause(ctx), nil) })
	g.mu.Lock()
	g.unhook = unhook
	g.mu.Unlock()
	if ctx.Err() != nil {
		g.stop(context.Cause(ctx), nil)
	}
}
