package pool

import "runtime/debug"

// A guest is a worker without a goroutine of its own: it runs a task in the
// goroutine of a caller. It belongs to one pool for good, and between two tasks it
// is gone, because a body may leave its context to others: what they do with that
// then counts for no task, and for no other pool.

// invite makes a guest of the pool; false when the pool takes no more tasks.
func (p *Pool) invite(accepted bool) (*worker, bool) {
	p.guests.Add(1)
	if !accepted && p.ending() {
		p.farewell()
		return nil, false
	}
	w, _ := p.spare.Get().(*worker)
	if w == nil {
		w = &worker{guest: true, pool: p, home: p.tallies.stripe(0)}
		w.ctx = &workerContext{worker: w}
	} else {
		w.flags.Store(0)
	}
	return w, true
}

// farewell lets the pool end that may have waited for a guest.
func (p *Pool) farewell() {
	p.guests.Add(-1)
	if p.ending() {
		p.hold(0)
	}
}

// runHere runs an item in this goroutine, for the rule CallerRuns and for callers
// who help.
func (p *Pool) runHere(it item) error {
	w, ok := p.invite(false)
	if !ok {
		p.tallies.refused.Add(1)
		return p.closedError()
	}
	p.tallies.helped.Add(1)
	defer p.dismissGuest(w, it)
	w.inTask = true
	it.run(w)
	w.inTask = false
	return nil
}

// help runs a task in this goroutine if it still waits in a queue. The guest is there
// before the task runs, so that the pool has not ended in between.
func (p *Pool) help(h *head, gen uint64) {
	w, _ := p.invite(true)
	defer p.dismissGuest(w, h.self)
	if !h.step(gen, TaskQueued, TaskRunning, 0) {
		return
	}
	h.queue.forget()
	p.tallies.helped.Add(1)
	w.inTask = true
	h.self.execute(w)
	w.inTask = false
}

// dismissGuest ends the work of a guest, also when the body has left by a panic,
// or by Goexit, which goes on to end the caller's goroutine.
func (p *Pool) dismissGuest(w *worker, it item) {
	if w.inTask {
		w.inTask = false
		value := recover()
		t := thrown{value: value, goexit: value == nil, stack: string(debug.Stack())}
		k := p.kindOf(it)
		it.crash(w, t)
		p.journal.emit(Event{Kind: Panicked, Worker: "caller", Task: k.name, Text: t.err(k.name).Message, Stack: t.stack})
	}
	w.flush()
	w.gone()
	p.spare.Put(w)
	p.farewell()
}
