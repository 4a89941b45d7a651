package process

import (
	"slices"

	"github.com/bullpen-run/bullpen/protocol"
)

// noteBegun records that a task has started although earlier answers have not arrived.
// The worker holds those back until it has run all that it has read, or is nudged.
// Pool.mu is held.
func (d *framesDriver) noteBegun(now int64) {
	w := d.w
	if d.page == nil || w.concurrency > 1 || w.count < 2 {
		return
	}
	if c := w.flight[int(d.page.Started())&(len(w.flight)-1)]; c != nil && c.started == 0 && d.busyWith(c) {
		c.started = now
	}
}

// busyWith reports whether the worker, which runs one task at a time, runs c now, or ran it
// when it died, according to the shared page.
func (d *framesDriver) busyWith(c *call) bool {
	return d.page.Started() == c.number && d.page.Finished() != c.number
}

// runs returns the task that the worker has started last.
func (d *framesDriver) runs() (number uint32, over bool) {
	w := d.w
	if d.page == nil || w.concurrency > 1 || w.state.State() == WorkerGone {
		return w.oldest, false
	}
	number = d.page.Started()
	return number, d.page.Finished() == number
}

// takeBack takes back the tasks that the worker has not started, from number first on,
// or all of them if first is 0. They belong to the pool immediately, and the worker
// returns them when it reaches them. Until then it gets no new tasks. A recall under way
// may be extended to earlier tasks.
func (d *framesDriver) takeBack(first uint32, now int64) {
	w, p := d.w, d.w.pool
	if d.page == nil || w.writing || len(w.pending) > 0 || w.concurrency > 1 {
		return // the next pass will do it
	}
	if first == 0 {
		first = protocol.Next(d.page.Started())
	}
	if d.recalled != 0 && !protocol.Before(first, d.recalled) {
		return // they already belong to the pool
	}
	d.recalled, w.paused = first, true
	if started := d.page.Recall(first); !protocol.Before(started, first) {
		first = protocol.Next(started)
	}
	var back []*call
	for number := first; number != w.next; number = protocol.Next(number) {
		if c := w.flight[int(number)&(len(w.flight)-1)]; c != nil && c.number == number {
			w.drop(c)
			d.owed++
			back = append(back, c)
		}
	}
	d.mine = first
	for _, c := range slices.Backward(back) {
		c.recalls++
		p.replay(c)
	}
	d.nudgeIfHeld(now)
	d.resume()
}

// returned reports whether a task that the worker returns was taken back already.
func (d *framesDriver) returned(number uint32) bool {
	if d.owed == 0 || protocol.Before(number, d.mine) || !protocol.Before(number, d.w.next) {
		return false
	}
	d.owed--
	return true
}

// resume lets the worker start tasks again once it has returned all recalled ones. Tasks
// that it started before it saw the recall are answered, so resume waits for them too.
func (d *framesDriver) resume() {
	if d.recalled == 0 || d.owed > 0 {
		return
	}
	for _, c := range d.w.flight {
		if c != nil && !protocol.Before(c.number, d.recalled) {
			return
		}
	}
	d.page.EndRecall()
	d.recalled, d.w.paused = 0, false
}

// tendBehind helps tasks that wait in the worker behind a long one: it takes them back,
// and makes the worker send the answers that it holds. Pool.mu is held.
func (d *framesDriver) tendBehind(now int64) {
	w, p := d.w, d.w.pool
	if w.count < 2 || d.page == nil || w.concurrency > 1 {
		return
	}
	p.wakeBy(now + int64(growWait))
	oldest := w.flight[int(w.oldest)&(len(w.flight)-1)]
	if oldest == nil || now-max(oldest.started, oldest.sent) < 2*int64(growWait) {
		return
	}
	d.nudgeIfHeld(now)
	started := d.page.Started()
	if started == d.page.Finished() {
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
		d.takeBack(first, now)
	}
}

// nudgeIfHeld makes the worker write the answers that it holds while a task runs.
func (d *framesDriver) nudgeIfHeld(now int64) {
	if d.hello.Ask > 0 && d.page.Started() != d.w.oldest && now-d.nudgedAt >= int64(growWait) {
		d.nudgedAt = now
		d.nudge()
	}
}
