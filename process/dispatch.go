package process

import (
	"runtime"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// wakeCost is roughly the time to wake a sleeping worker.
const wakeCost = 20 * time.Microsecond

// pick returns a worker with room, or nil: the one that became idle last, so that the
// others stay idle and leave, else the busy one with the fewest tasks. For the shortest
// tasks it prefers the last worker used, as long as that finishes its tasks sooner than
// another one could wake up, and they can be recalled if that proves wrong. With alone,
// only an idle worker will do. Pool.mu is held.
func (p *Pool) pick(alone bool) *worker {
	if p.config.perTask {
		return p.freePlace()
	}
	if w := p.last; !alone && w != nil && w.page != nil && time.Duration(p.meanRun) <= shortest && w.state.State() == WorkerBusy &&
		time.Duration(w.count)*time.Duration(p.meanRun) < wakeCost && w.room() > 0 {
		return w
	}
	for _, w := range slices.Backward(p.idle) {
		if w.sound() {
			return w
		}
	}
	if alone {
		return nil
	}
	var best *worker
	for _, w := range p.workers {
		if room := w.room(); room > 0 && (best == nil || w.count < best.count) {
			best = w
		}
	}
	return best
}

// give assigns c to w, which has room. The goroutine that claims w writes it. Pool.mu
// is held.
func (p *Pool) give(w *worker, c *call, now int64) {
	if err := c.state.Move(taskWaiting, taskSent); err != nil {
		p.logs.fault(err)
		return
	}
	if w.count == 0 {
		if n := len(p.idle); n > 0 && p.idle[n-1] == w {
			p.idle = p.idle[:n-1]
		} else if i := slices.Index(p.idle, w); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
		p.showIdle()
		if w.state.State() == WorkerIdle { // else it has just answered its last task
			if err := w.state.Move(WorkerIdle, WorkerBusy); err != nil {
				p.logs.fault(err)
			}
		}
		c.started = now
		if quiet := p.config.quiet; quiet > 0 {
			p.wakeBy(now + int64(quiet)) // it may never answer
		}
		if p.unbound != nil {
			p.wakeBy(now + int64(watchEvery))
		}
	} else {
		c.started = 0
		p.crowded = true
		p.wakeBy(now + int64(growWait)) // c may have to be taken back
	}
	p.last = w
	c.worker, c.number, c.sent = w, w.next, now
	w.flight[int(w.next)&(len(w.flight)-1)] = c
	if w.count == 0 {
		w.oldest, w.alone = w.next, c.alone()
	}
	w.next = protocol.Next(w.next)
	w.count++
	w.bytes += c.weight()
	p.inHand++
	p.tally.queue.Add(time.Duration(now - c.accepted))
	w.pending = append(w.pending, c)
	if w.tasks > 0 && w.served+w.count >= w.tasks {
		w.spent, w.cause = true, ByTasks // its last tasks: a successor may start
	}
	if c.timeout > 0 && (w.count == 1 || w.concurrency > 1) {
		c.started = now
		p.wakeBy(now + int64(c.timeout))
	}
}

// serve assigns queued tasks to w while it has room. Pool.mu is held; the caller claims
// and flushes.
func (p *Pool) serve(w *worker, now int64) {
	for p.queue.n > 0 && w.room() > 0 {
		c := p.queue.first
		if w.count > 0 && c.alone() {
			break
		}
		p.queue.remove(c)
		if w.codec != nil {
			if err := w.codec.Check(&c.task); err != nil {
				p.endLater(c, err)
				continue
			}
		}
		p.give(w, c, now)
	}
	p.admit()
}

// claim reports whether the caller must now write to w: it must call flush after it has
// unlocked Pool.mu, which is held.
func (p *Pool) claim(w *worker) bool {
	if w.writing || len(w.pending) == 0 && len(w.control) == 0 {
		return false
	}
	w.writing = true
	return true
}

// flush writes to w until nothing is left. Only the goroutine that has claimed w calls
// it. If busy is set, the worker has enough to do for the moment, so flush first yields
// to callers that are about to submit, whose tasks then go with the same write. flush
// never waits for the worker: a goroutine of its own writes what does not fit.
func (p *Pool) flush(w *worker, busy bool) {
	if p.config.Protocol == Exec {
		p.execute(w)
		return
	}
	if busy {
		runtime.Gosched()
	}
	var out []byte
	var batch []*call
	for {
		p.mu.Lock()
		clear(batch)
		if len(w.pending) == 0 && len(w.control) == 0 || w.broken {
			if cap(out) <= 1<<18 {
				w.input.outBuffer = out[:0]
			}
			p.release(w)
			return
		}
		if out == nil {
			out = w.input.outBuffer
		}
		batch, w.pending = w.pending, batch[:0]
		out = append(out[:0], w.control...)
		w.control = w.control[:0]
		p.mu.Unlock()
		out = w.encode(out, batch)
		n, err := w.in.Try(out)
		if err == nil && n < len(out) {
			// Ends when the worker has read it, or has ended.
			p.tasks.Go(func() {
				more, err := w.in.Write(out[n:])
				p.wrote(w, len(out)-n-more, err)
				p.flush(w, false)
			})
			return
		}
		if err != nil {
			p.wrote(w, len(out)-n, err)
		}
	}
}

// encode appends the frames of the batch to out.
func (w *worker) encode(out []byte, batch []*call) []byte {
	for _, c := range batch {
		output := 0
		if c.output != w.pool.config.Limits.Output {
			output = c.output
		}
		out = w.codec.AppendTask(out, wire.Task{Number: c.number, Timeout: c.timeout, Output: output, Task: &c.task})
		w.sentTo.Store(c.number)
	}
	return out
}

// wrote records that writing failed with left bytes unwritten. The worker has ended or
// closed its end; its exit shows which.
func (p *Pool) wrote(w *worker, left int, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.broken = true
	w.input.unwritten = left
	if !w.exited && w.state.State() != WorkerLeaving {
		w.overdueBy(p.now() + int64(p.config.Grace))
	}
}

// release ends the caller's claim on w. Pool.mu is held on entry; release unlocks it.
func (p *Pool) release(w *worker) {
	w.writing = false
	exited := w.exited
	p.mu.Unlock()
	if exited {
		p.settle(w)
	}
}

// overdueBy makes the keeper kill w at time t if it is still alive. Pool.mu is held.
func (w *worker) overdueBy(t int64) {
	if w.overdue == 0 || t < w.overdue {
		w.overdue = t
		w.pool.wakeBy(t)
	}
}
