package pool

import "runtime/debug"

// A guest is a worker without its own goroutine: it runs a task in the goroutine of a
// caller. It always belongs to the same pool. Between two tasks it has flagGone, because a
// body may pass its context to other goroutines: what they then do with it affects no other
// task.

// invite returns a guest of the pool, or false if the pool accepts no more tasks.
func (p *Pool) invite(accepted bool) (*worker, bool) {
	p.guests.Add(1)
	if !accepted && p.ending() {
		p.farewell()
		return nil, false
	}
	w, _ := p.spare.Get().(*worker)
	if w == nil {
		w = &worker{guest: true, pool: p, home: p.counters.stripe(0)}
		w.ctx = &workerContext{worker: w}
	} else {
		w.flags.Store(0)
	}
	return w, true
}

// farewell removes a guest, and ends the pool if it waited only for that.
func (p *Pool) farewell() {
	p.guests.Add(-1)
	if p.ending() {
		p.hold(0)
	}
}

// runHere runs an item in this goroutine, for the rule CallerRuns and the option Help.
func (p *Pool) runHere(it item) error {
	w, ok := p.invite(false)
	if !ok {
		p.counters.refused.Add(1)
		return p.closedError()
	}
	p.counters.helped.Add(1)
	defer p.dismissGuest(w, it)
	w.inTask = true
	it.run(w)
	w.inTask = false
	return nil
}

// help runs a task in this goroutine if it still waits in a queue. It invites the guest
// first, so that the pool does not end in between.
func (p *Pool) help(h *head, gen uint64) {
	w, _ := p.invite(true)
	defer p.dismissGuest(w, h.self)
	if !h.step(gen, TaskQueued, TaskRunning, 0) {
		return
	}
	h.queue.forget()
	p.counters.helped.Add(1)
	w.inTask = true
	h.self.execute(w)
	w.inTask = false
}

// dismissGuest ends the work of a guest, even if the body panicked or called Goexit, which
// then ends the caller's goroutine.
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
