package pool

import "context"

// failed notes how a task ended that did not end well.
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

// stop ends the context and all tasks that wait. Only the first call counts.
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
		g.sweep() // the sweep of stop may have been earlier
	}
}

// sweep takes back what waits in the queue, or in the hands of workers.
func (g *FuncGroup[A, R]) sweep() {
	if g.apart {
		return
	}
	p := g.span.pool
	p.guests.Add(1) // the pool has not ended before these are told
	defer p.farewell()
	mine := func(it item) bool {
		c, ok := it.(*cell[A, R])
		return ok && c.slab.group == g
	}
	if g.queue.lane == nil {
		for _, w := range p.seats(nil) {
			w.relieve() // into the queue
		}
	}
	taken := g.queue.remove(mine)
	if g.queue.lane == nil && g.queue != p.shards[0] {
		taken = append(taken, p.shards[0].remove(mine)...) // where relieve puts them
	}
	err := g.stopError()
	for _, it := range taken {
		it.fail(err)
	}
}

// stopError is the outcome of a task that did not start because of stop.
func (g *FuncGroup[A, R]) stopError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return notStarted(g.f.place.kind, g.cause)
}

// remove takes out the items that match, and gives their places back.
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
	q.gate.free(len(taken))
	if q.gate.blocked.Load() > 0 {
		q.gate.admit(1)
	}
	q.pool.lessWaits()
	return taken
}

// watchCaller ends the group with the caller's context.
func (g *FuncGroup[A, R]) watchCaller(ctx context.Context) {
	unhook := context.AfterFunc(ctx, func() { g.stop(context.Cause(ctx), nil) })
	g.mu.Lock()
	g.unhook = unhook
	g.mu.Unlock()
	if ctx.Err() != nil {
		g.stop(context.Cause(ctx), nil)
	}
}
