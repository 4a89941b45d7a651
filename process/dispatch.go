package process

import (
	"slices"
	"time"

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
	if w := p.last; !alone && w != nil && w.recallable && time.Duration(p.meanRun) <= shortest && w.state.State() == WorkerBusy &&
		time.Duration(w.count)*time.Duration(p.meanRun) < wakeCost && w.room() > 0 {
		return w
	}
	for _, w := range slices.Backward(p.idle) {
		if w.sound() && !w.paused {
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
	if c.members == nil {
		p.counters.queue.Add(time.Duration(now - c.accepted))
	} else {
		p.sendMembers(w, c, now)
	}
	w.pending = append(w.pending, c)
	if w.tasks > 0 && w.served+w.count+w.more >= w.tasks {
		w.spent, w.cause = true, ByTasks // its last tasks: a successor may start
	}
	if limit := c.limit(); limit > 0 && (w.count == 1 || w.concurrency > 1) {
		c.started = now
		p.wakeBy(now + int64(limit))
	}
}

// serve assigns queued tasks to w while it has room. Pool.mu is held; the caller claims w
// and sends.
func (p *Pool) serve(w *worker, now int64) {
	for p.due(now) && w.room() > 0 {
		c := p.queue.first
		if w.count > 0 && c.alone() {
			break
		}
		p.queue.remove(c)
		if err := w.driver.check(&c.task); err != nil {
			p.endLater(c, err)
			continue
		}
		p.give(w, p.gather(c), now)
	}
	p.admit()
}

// claim reports whether the caller must now send to w: it must call driver.send after it
// has unlocked Pool.mu, which is held.
func (p *Pool) claim(w *worker) bool {
	if w.writing || len(w.pending) == 0 && len(w.control) == 0 {
		return false
	}
	w.writing = true
	return true
}

// broke records that nothing more can be sent to w. Its exit shows whether it has ended
// or closed its end. Pool.mu is held.
func (p *Pool) broke(w *worker) {
	w.broken = true
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
