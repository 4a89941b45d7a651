package process

import (
	"context"

	"github.com/bullpen-run/bullpen"
)

// batchChunk is the number of tasks of a batch that are accepted under one lock.
const batchChunk = 256

// ExecuteAll runs all tasks and returns how each ended, in the order of tasks. It is
// the fastest way to run many short tasks, because many share one lock and one wake-up.
// Apart from the results it holds no more tasks than the queue and the workers do. A
// failed task does not stop the others. When ctx ends, tasks that have not ended are
// canceled.
//
// ExecuteAll waits for places in the queue regardless of Config.Overflow, since the
// caller waits anyway.
func (p *Pool) ExecuteAll(ctx context.Context, tasks []bullpen.Task) []bullpen.Ended {
	b := &batch{ended: make([]bullpen.Ended, len(tasks)), ready: make(chan struct{})}
	b.left.Store(int64(len(tasks)))
	for from := 0; from < len(tasks); from += batchChunk {
		to := min(from+batchChunk, len(tasks))
		w := p.acceptChunk(ctx, b, tasks[from:to], from)
		if w == nil {
			continue
		}
		select {
		case <-w.admitted:
		case <-ctx.Done():
			p.cancelBatch(b, context.Cause(ctx))
		}
	}
	if len(tasks) == 0 {
		return b.ended
	}
	select {
	case <-b.ready:
	case <-ctx.Done():
		p.cancelBatch(b, context.Cause(ctx))
		<-b.ready
	}
	return b.ended
}

// acceptChunk accepts tasks of a batch: to workers with room, then into the queue, then
// behind it. In the last case it returns a waiter, which is admitted when all tasks
// have a place.
func (p *Pool) acceptChunk(ctx context.Context, b *batch, tasks []bullpen.Task, from int) *waiter {
	var refused []*call
	var mine []*worker
	var w *waiter
	cause := context.Cause(ctx)
	now := p.now()
	p.mu.Lock()
	for i := range tasks {
		c := newCall()
		c.batch, c.index, c.accepted = b, from+i, now
		err := cause
		if err == nil {
			err = p.fill(c, tasks[i])
		}
		if err == nil {
			err = p.admissible(c)
		}
		if err != nil {
			p.counters.refused++
			c.task, c.err = tasks[i], err
			refused = append(refused, c)
			continue
		}
		p.counters.accepted++
		mine, w = p.assign(c, w, now, mine)
	}
	p.mu.Unlock()
	for _, to := range mine {
		to.driver.send()
	}
	for _, c := range refused {
		p.deliver(c)
		p.informed.Add(^uint64(0)) // refused tasks are not in counters.accepted
	}
	return w
}

// assign puts an accepted task into the queue or behind it, or gives it to a worker. It
// adds the worker to mine if the caller must write to it. Pool.mu is held.
func (p *Pool) assign(c *call, w *waiter, now int64, mine []*worker) ([]*worker, *waiter) {
	if p.queue.n == 0 && p.config.shape == nil && !p.full() {
		if to := p.pick(c.alone()); to != nil {
			p.give(to, c, now)
			if p.claim(to) {
				mine = append(mine, to)
			}
			return mine, w
		}
	}
	switch {
	case !p.full():
		p.enqueue(c)
	case w == nil || w.calls.n == 0: // no waiter yet, or it has been admitted
		w = &waiter{admitted: make(chan struct{})}
		p.blocked.push(w, c)
		p.admit() // an outcome may have been delivered since full was checked
	default:
		w.calls.pushBack(c)
	}
	if p.config.shape != nil {
		if to := p.serveDue(now); to != nil {
			mine = append(mine, to)
		}
	}
	return mine, w
}

// cancelBatch cancels the tasks of b that have not ended. The calls of a batch are
// reused as soon as their outcome is delivered. So cancelBatch does not touch a call
// after ending it, or after another goroutine that it woke may have ended it.
func (p *Pool) cancelBatch(b *batch, cause error) {
	var ended []*call
	now := p.now()
	p.mu.Lock()
	ended = p.endWaiting(&p.queue, b, cause, ended)
	for i := 0; i < len(p.blocked.all); {
		w := p.blocked.all[i]
		ended = p.endWaiting(&w.calls, b, cause, ended)
		if w.calls.n > 0 {
			i++
			continue
		}
		p.blocked.drop(i)
	}
	p.admit()
	for _, w := range p.workers {
		mine := false
		for _, c := range w.flight {
			mine = c.blame(b, cause) || mine
		}
		if mine {
			p.attend(w, now)
		}
	}
	p.mu.Unlock()
	for _, c := range ended {
		p.deliver(c)
	}
}

// blame sets the cause of c and its members, as far as they are of b. It reports whether
// there is one. Pool.mu is held.
func (c *call) blame(b *batch, cause error) (mine bool) {
	switch {
	case c == nil:
	case c.members != nil:
		for _, m := range c.members.calls {
			mine = m.blame(b, cause) || mine
		}
	case c.batch == b && c.cause == nil:
		c.cause, mine = cause, true
	}
	return mine
}

// endWaiting ends the calls of b in l and appends them to ended. Pool.mu is held.
func (p *Pool) endWaiting(l *list, b *batch, cause error, ended []*call) []*call {
	for c := l.first; c != nil; {
		next := c.next
		if c.batch == b {
			l.remove(c)
			if p.end(c, bullpen.Result{}, cause) {
				ended = append(ended, c)
			}
		}
		c = next
	}
	return ended
}
