package process

import (
	"context"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// batchChunk is how many tasks of a batch are accepted under one lock.
const batchChunk = 256

// ExecuteAll runs all tasks and returns how each ended, in the order of the
// input. It is the quickest way to run many short tasks: one lock, one
// allocation and one wake-up for many. A failure of one task stops none of the
// others; the end of ctx takes back those that have not ended.
//
// It waits for places in the queue whatever Config.Overflow says: the caller
// waits anyway.
func (p *Pool) ExecuteAll(ctx context.Context, tasks []bullpen.Task) []bullpen.Ended {
	b := &batch{ended: make([]bullpen.Ended, len(tasks)), ready: make(chan struct{})}
	if len(tasks) == 0 {
		return b.ended
	}
	b.left.Store(int64(len(tasks)))
	all := make([]call, len(tasks))
	var initial lifecycle.Machine[taskState]
	initial.Init(&taskStates, taskWaiting)
	for i := range tasks {
		b.ended[i].Index, b.ended[i].Task = i, tasks[i]
	}
	for from := 0; from < len(tasks); from += batchChunk {
		to := min(from+batchChunk, len(tasks))
		p.acceptChunk(ctx, b, all[from:to], tasks[from:to], from)
	}
	select {
	case <-b.ready:
		return b.ended
	default:
	}
	select {
	case <-b.ready:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		for i := range all {
			p.cancel(&all[i], cause)
		}
		<-b.ready
	}
	return b.ended
}

// acceptChunk accepts tasks of a batch: into workers with room, then into the
// queue, then behind it.
func (p *Pool) acceptChunk(ctx context.Context, b *batch, chunk []call, tasks []bullpen.Task, from int) {
	now := p.now()
	var refused []*call
	var mine []*worker
	w := &waiter{}
	cause := context.Cause(ctx)
	p.mu.Lock()
	for i := range chunk {
		c := &chunk[i]
		c.state.Init(&taskStates, taskWaiting)
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
			c.err = err
			refused = append(refused, c)
			if _, err := c.state.MoveAny(taskEnded); err != nil {
				p.logs.fault(err)
			}
			continue
		}
		p.tally.accepted++
		mine = p.place(c, w, now, mine)
	}
	p.mu.Unlock()
	for _, to := range mine {
		p.flush(to, false)
	}
	for _, c := range refused {
		p.deliver(c)
	}
}

// place puts an accepted task where it waits, or gives it to a worker, which is
// added to mine when the caller has to write to it. Pool.mu is held.
func (p *Pool) place(c *call, w *waiter, now int64, mine []*worker) []*worker {
	if p.queue.n == 0 {
		if to := p.pick(); to != nil {
			p.give(to, c, now)
			if p.claim(to) {
				mine = append(mine, to)
			}
			return mine
		}
	}
	if p.queue.n < p.config.Queue {
		p.enqueue(c)
		return mine
	}
	if w.calls.n == 0 {
		p.blocked.push(w, c)
	} else {
		w.calls.pushBack(c)
	}
	return mine
}
