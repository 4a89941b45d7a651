package process

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/bullpen-run/bullpen/protocol"
)

// tendTasks ends tasks of w that exceeded their run time or were canceled. Pool.mu is
// held.
func (p *Pool) tendTasks(w *worker, now int64) {
	w.noteBegun(now)
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
		if c.timeout > 0 && c.started > 0 && c.cause == nil {
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

// noteBegun records that a task has started although earlier answers have not arrived.
// The worker holds those back until it has run all that it has read, or is nudged.
// Pool.mu is held.
func (w *worker) noteBegun(now int64) {
	if w.page == nil || w.concurrency > 1 || w.count < 2 {
		return
	}
	if c := w.flight[int(w.page.Started())&(len(w.flight)-1)]; c != nil && c.started == 0 && w.runs(c) {
		c.started = now
	}
}

// runs reports whether w, which runs one task at a time, runs c now, according to the
// shared page.
func (w *worker) runs(c *call) bool {
	return w.page != nil && w.page.Started() == c.number && w.page.Finished() != c.number
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
	if p.config.Protocol == Exec {
		c.asked, c.askedAt = true, now
		p.askExec(w)
		p.wakeBy(now + int64(p.config.Grace))
		return
	}
	if w.concurrency == 1 && c.number != w.oldest && !w.runs(c) {
		p.recall(w, c.number, now)
		p.wakeBy(now + int64(growWait))
		return // the task comes back, or becomes the oldest
	}
	if !w.written(c) {
		p.wakeBy(now + int64(growWait))
		return
	}
	if !w.askable() {
		p.kill(w, causeOf(c), c)
		return
	}
	c.asked, c.askedAt = true, now
	p.wakeBy(now + int64(p.config.Grace))
	code := uint16(protocol.ReasonCanceled)
	if isDeadline(c.cause) {
		code = protocol.ReasonTimeout
	}
	w.control = w.codec.AppendCancel(w.control, c.number, code)
	if w.page != nil && w.hello.Ask > 0 && w.concurrency == 1 {
		w.page.Ask(c.number, uint32(code))
		w.nudge()
	}
}

// askable reports whether w can be asked to end a running task.
func (w *worker) askable() bool {
	return w.hello != nil && (w.concurrency > 1 || w.page != nil && w.hello.Ask > 0)
}

// written reports whether c has been encoded for w, so that w may have read it.
func (w *worker) written(c *call) bool {
	return !slices.Contains(w.pending, c) && !protocol.Before(w.sentTo.Load(), c.number)
}

// nudge signals w to read the shared page.
func (w *worker) nudge() {
	if err := w.child.Signal(syscall.Signal(w.hello.Ask)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.pool.logs.fault(err)
	}
}

func causeOf(c *call) Cause {
	if isDeadline(c.cause) {
		return ByTimeout
	}
	return ByCancel
}

// recall takes back the tasks that w has not started, from number first on. They belong
// to the pool immediately, and the worker returns them when it reaches them. Until then
// w gets no new tasks. A recall under way may be extended to earlier tasks. Pool.mu is
// held.
func (p *Pool) recall(w *worker, first uint32, now int64) {
	if w.page == nil || w.writing || len(w.pending) > 0 || w.concurrency > 1 {
		return // the next pass will do it
	}
	if w.recalled != 0 && !protocol.Before(first, w.recalled) {
		return // they already belong to the pool
	}
	w.recalled = first
	if started := w.page.Recall(first); !protocol.Before(started, first) {
		first = protocol.Next(started)
	}
	var back []*call
	for number := first; number != w.next; number = protocol.Next(number) {
		if c := w.flight[int(number)&(len(w.flight)-1)]; c != nil && c.number == number {
			w.drop(c)
			w.owed++
			back = append(back, c)
		}
	}
	w.mine = first
	for _, c := range slices.Backward(back) {
		c.recalls++
		p.replay(c)
	}
	w.nudgeIfHeld(now)
	p.endRecall(w)
}

// endRecall lets w start tasks again once it has returned all recalled ones. Tasks that
// it started before it saw the recall are answered, so endRecall waits for them too.
// Pool.mu is held.
func (p *Pool) endRecall(w *worker) {
	if w.recalled == 0 || w.owed > 0 {
		return
	}
	for _, c := range w.flight {
		if c != nil && !protocol.Before(c.number, w.recalled) {
			return
		}
	}
	w.page.EndRecall()
	w.recalled = 0
}

// tendBehind helps tasks that wait in w behind a long one: it takes them back, and
// makes w send the answers that it holds.
func (p *Pool) tendBehind(w *worker, now int64) {
	if p.config.Protocol == Lines {
		p.tendSilence(w, now)
	}
	if w.count < 2 || w.page == nil || w.concurrency > 1 {
		return
	}
	p.wakeBy(now + int64(growWait))
	oldest := w.flight[int(w.oldest)&(len(w.flight)-1)]
	if oldest == nil || now-max(oldest.started, oldest.sent) < 2*int64(growWait) {
		return
	}
	w.nudgeIfHeld(now)
	started := w.page.Started()
	if started == w.page.Finished() {
		return // between two tasks
	}
	// The running task has no answer yet, so it is not before the oldest assigned one.
	// A worker that reports otherwise keeps the oldest, and is held to its deadline.
	first := protocol.Next(started)
	if oldest := protocol.Next(w.oldest); protocol.Before(first, oldest) {
		first = oldest
	}
	if protocol.Before(first, w.next) {
		p.meanRun.add(now - max(oldest.started, oldest.sent)) // at least this long
		p.recall(w, first, now)
	}
}

// nudgeIfHeld makes w write the answers that it holds while a task runs.
func (w *worker) nudgeIfHeld(now int64) {
	if w.hello.Ask > 0 && w.page.Started() != w.oldest && now-w.nudgedAt >= int64(growWait) {
		w.nudgedAt = now
		w.nudge()
	}
}
