package process

import (
	"context"

	"github.com/bullpen-run/bullpen"
)

// batchChunk is how many tasks of a batch are accepted under one lock.
const batchChunk = 256

// ExecuteAll runs all tasks and returns how each ended, in the order of the
// input. It is the quickest way to run many short tasks: one lock and one
// wake-up for many. Beside the results it holds no more tasks than the queue
// and the workers do. A failure of one task stops none of the others; the end of
// ctx takes back those that have not ended.
//
// It waits for places in the queue whatever Config.Overflow says: the caller
// waits anyway.
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

// acceptChunk accepts tasks of a batch: into workers with room, then into the
// queue, then behind it. In the last case it returns what tells when all have a
// place.
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
			p.tally.refused++
			c.task, c.err = tasks[i], err
			refused = append(refused, c)
			continue
		}
		p.tally.accepted++
		mine, w = p.place(c, w, now, mine)
	}
	p.mu.Unlock()
	for _, to := range mine {
		p.flush(to, false)
	}
	for _, c := range refused {
		p.deliver(c)
		p.informed.Add(^uint64(0)) // it was not accepted
	}
	return w
}

// place puts an accepted task where it waits, or gives it to a worker, which is
// added to mine when the caller has to write to it. Pool.mu is held.
func (p *Pool) place(c *call, w *waiter, now int64, mine []*worker) ([]*worker, *waiter) {
	if p.queue.n == 0 && !p.full() {
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
	case w == nil || w.calls.n == 0: // none yet, or all of it has been admitted
		w = &waiter{admitted: make(chan struct{})}
		p.blocked.push(w, c)
		p.admit() // a place may have become free at this moment
	default:
		w.calls.pushBack(c)
	}
	return mine, w
}

// cancelBatch takes back what has not ended of b. Calls of a batch are used again
// as soon as they are told, so none is looked at after it has been ended, or may
// have been by somebody who was woken here.
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
			if c != nil && c.batch == b && c.cause == nil {
				c.cause, mine = cause, true
			}
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

// endWaiting ends the calls of b that stand in l and adds them to ended. Pool.mu
// is held.
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
