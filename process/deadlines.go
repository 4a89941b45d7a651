package process

import (
	"slices"

	"github.com/bullpen-run/bullpen/protocol"
)

// tendTasks ends tasks of w that exceeded their run time or were canceled. Pool.mu is
// held.
func (p *Pool) tendTasks(w *worker, now int64) {
	number := w.oldest
	for range w.count {
		c := w.flight[int(number)&(len(w.flight)-1)]
		for c == nil && number != w.next {
			number = protocol.Next(number)
			c = w.flight[int(number)&(len(w.flight)-1)]
		}
		if c == nil {
			return
		}
		if c.members != nil {
			if c.cause == nil {
				p.tendMembers(w, c, now)
			}
		} else if c.timeout > 0 && c.started > 0 && c.cause == nil {
			if due := c.started + int64(c.timeout); now >= due {
				c.cause = errRunTime
			} else {
				p.wakeBy(due)
			}
		}
		if c.cause != nil {
			p.attendTo(w, c, now)
		}
		number = protocol.Next(number)
	}
}

// attend immediately handles the tasks of w that must end. Pool.mu is held.
func (p *Pool) attend(w *worker, now int64) {
	if w != nil && !w.killed && !w.exited {
		p.tendTasks(w, now)
		p.wakeBy(now) // the keeper writes to w
	}
}

// attendTo ends one task assigned to w. It takes the task back if it has not started.
// Otherwise it asks the task to end, and kills w after the grace period.
func (p *Pool) attendTo(w *worker, c *call, now int64) {
	if c.asked {
		if now >= c.askedAt+int64(p.config.Grace) {
			p.kill(w, causeOf(c), c)
		} else {
			p.wakeBy(c.askedAt + int64(p.config.Grace))
		}
		return
	}
	if !w.began(c) {
		w.driver.takeBack(c.number, now)
		p.wakeBy(now + int64(growWait))
		return // the task comes back, or begins
	}
	if !w.driver.cancel(c) {
		p.kill(w, causeOf(c), c)
		return
	}
	c.asked, c.askedAt = true, now
	p.wakeBy(now + int64(p.config.Grace))
}

// began reports whether w may have begun to run c. Pool.mu is held.
func (w *worker) began(c *call) bool {
	if !w.written(c) {
		return false
	}
	if w.concurrency > 1 || c.number == w.oldest {
		return true
	}
	number, over := w.driver.runs()
	return number == c.number && !over
}

// written reports whether c has been sent to w, so that w may have read it.
func (w *worker) written(c *call) bool {
	return !slices.Contains(w.pending, c) && !protocol.Before(w.sentTo.Load(), c.number)
}

func causeOf(c *call) Cause {
	if isDeadline(c.cause) {
		return ByTimeout
	}
	return ByCancel
}
