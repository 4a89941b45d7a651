package process

import (
	"fmt"
	"time"
)

// share is what a pool has to do with its Budget. Its methods may be called on
// nil, for a pool that has none. Pool.mu guards the fields from lined on.
type share struct {
	budget  *Budget
	account *account
	offset  int64 // what the pool's epoch is in the time of the budget

	lined bool // the pool waits for room
	asks  bool // and has asked again since the keeper began to look
}

// lease is the room that a worker has in a budget. Pool.mu guards it.
type lease struct {
	held  bool
	bytes int64 // with which it counts
	how   departure
}

// joinBudget opens the pool's account.
func (p *Pool) joinBudget() error {
	c := &p.config.Config
	if c.Budget == nil {
		return nil
	}
	a := &account{name: c.Name, min: c.Min, plan: DefaultNeed, gives: c.Protocol != Exec, poke: p.nudge, room: &p.room}
	for _, told := range []int64{c.Need, c.Limits.Memory} {
		if told > 0 {
			a.plan, a.declared = told, true
			break
		}
	}
	a.need = a.plan
	if err := c.Budget.join(a); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	// Before the keeper is started, so nobody looks yet.
	p.share = &share{budget: c.Budget, account: a, offset: int64(p.epoch.Sub(c.Budget.epoch))}
	return nil
}

// leaveBudget closes the account of a pool that has ended, or was never begun.
func (p *Pool) leaveBudget() {
	if p.share != nil {
		p.share.budget.leave(p.share.account)
	}
}

// nudge makes the keeper look, without a lock.
func (p *Pool) nudge() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// admitStart asks the budget for room for one worker, and says whether there is
// some; if not, the keeper is woken when it is. Pool.mu is held.
func (p *Pool) admitStart(why purpose) bool {
	s := p.share
	if s == nil {
		return true
	}
	ok, again := s.budget.take(s.account, why, 10*time.Duration(p.meanStart))
	s.lined, s.asks = !ok, !ok
	if again > 0 {
		p.wakeBy(again - s.offset)
	}
	return ok
}

// begin starts a worker if the budget has room. Pool.mu is held.
func (p *Pool) begin(why purpose) bool {
	if p.config.Protocol == Exec {
		p.launch() // a place: its processes ask for themselves
		return true
	}
	if !p.admitStart(why) {
		return false
	}
	p.launch()
	p.enter(p.workers[len(p.workers)-1])
	return true
}

// enter notes that w has got room. Pool.mu is held.
func (p *Pool) enter(w *worker) {
	if p.share != nil {
		w.place = lease{held: true, bytes: p.share.account.need}
		w.resident = 0 // what it was of an earlier process
	}
}

// giveBack returns the room of w, whose process has ended. Pool.mu is held.
func (p *Pool) giveBack(w *worker) {
	if w.place.held {
		p.share.budget.release(p.share.account, w.place.bytes, w.place.how)
		w.place = lease{}
	}
}

// launchSuccessor starts a worker that is to take the place of old. Where the
// budget has no room for both, old leaves first. Pool.mu is held.
func (p *Pool) launchSuccessor(old *worker, now int64) {
	if p.share == nil || p.config.Protocol == Exec {
		p.launch()
		old.successor = p.workers[len(p.workers)-1]
		return
	}
	ok, again := p.share.budget.grab(p.share.account)
	switch {
	case ok:
		p.launch()
		old.successor = p.workers[len(p.workers)-1]
		p.enter(old.successor)
	case again > 0:
		p.wakeBy(again - p.share.offset)
	case p.failures == 0:
		p.retire(old, old.cause, now)
	default:
		p.wakeBy(now + int64(memoryEvery)) // better an old worker than none
	}
}

// showIdle tells the budget since when the pool has a worker that idles, and how
// many. Pool.mu is held.
func (p *Pool) showIdle() {
	s := p.share
	if s == nil || !s.account.gives {
		return
	}
	since := int64(0)
	if len(p.idle) > 0 {
		since = p.idle[0].idleSince + s.offset
	}
	s.account.idle.Store(int32(len(p.idle)))
	s.account.rested.Store(since)
}

// restedFor looks whether w, which has just become idle, is needed elsewhere.
// Pool.mu is held.
func (p *Pool) restedFor(w *worker, now int64) {
	if p.share == nil {
		return
	}
	if p.config.Protocol == Exec {
		p.giveBack(w) // it had been taken for a task that did not come
		return
	}
	p.showIdle()
	if p.share.budget.ledger.short.Load() {
		p.wakeBy(now + int64(growWait))
	}
}

// beginLook makes ready to notice whether the pool still wants the room for which
// it waits. Pool.mu is held.
func (s *share) beginLook() {
	if s != nil {
		s.asks = false
	}
}

// waits reports whether the pool has been refused room in this look: then it is
// poked when there is some. Pool.mu is held.
func (s *share) waits() bool { return s != nil && s.asks }

// tendBudget lets workers leave for other pools, and ends a wait for room that is
// no longer needed. Pool.mu is held.
func (p *Pool) tendBudget(now int64) {
	s := p.share
	if s == nil {
		return
	}
	if s.lined && !s.asks {
		s.lined = false
		s.budget.withdraw(s.account)
	}
	p.showIdle()
	idle, busy := s.budget.requests(s.account)
	for ; busy > 0; busy-- {
		w := p.leastBusy()
		if w == nil {
			s.budget.refuse(s.account, 0, busy)
			break
		}
		p.cede(w, wasPressed, now)
	}
	for ; idle > 0; idle-- {
		w := p.leastWorth(now)
		if w == nil {
			s.budget.refuse(s.account, idle, 0)
			break
		}
		if due := w.idleSince + int64(growWait); now < due {
			p.wakeBy(due) // its caller may be about to come back
			break
		}
		p.cede(w, wasAsked, now)
	}
}

// cede lets w leave for another pool. Pool.mu is held.
func (p *Pool) cede(w *worker, how departure, now int64) {
	p.share.budget.gave(p.share.account, how)
	w.place.how = how
	p.retire(w, ByBudget, now)
	p.showIdle()
}

// mayCede reports whether the pool has a worker beyond those that it keeps. Pool.mu
// is held.
func (p *Pool) mayCede() bool {
	n := 0
	for _, w := range p.workers {
		if s := w.state.State(); w.place.held && s != WorkerLeaving && s != WorkerGone {
			n++
		}
	}
	return n > p.min
}

// leastWorth is the idle worker for which the product of size and idle time is
// the largest, nil when the pool has none to give. Pool.mu is held.
func (p *Pool) leastWorth(now int64) *worker {
	var least *worker
	waste := 0.0
	if !p.mayCede() {
		return nil
	}
	for _, w := range p.idle {
		if v := float64(now-w.idleSince+1) * float64(max(w.place.bytes, 1)); w.place.held && v > waste {
			least, waste = w, v
		}
	}
	return least
}

// leastBusy is a worker that idles, or else the one with the least in hand; nil
// when the pool has none to give. Pool.mu is held.
func (p *Pool) leastBusy() *worker {
	var least *worker
	if !p.mayCede() {
		return nil
	}
	for _, w := range p.workers {
		if s := w.state.State(); (s == WorkerIdle || s == WorkerBusy) && w.place.held && (least == nil || w.count < least.count) {
			least = w
		}
	}
	return least
}

// weighs reports whether the budget bounds memory.
func (s *share) weighs() bool { return s != nil && s.budget.config.Memory > 0 }

// weigh books the resident sizes that have been measured. Pool.mu is held.
func (p *Pool) weigh() {
	s := p.share
	if !s.weighs() {
		return
	}
	var more, largest int64
	for _, w := range p.workers {
		if !w.place.held || w.resident == 0 || w.exited {
			continue
		}
		largest = max(largest, w.resident)
		bytes := w.resident
		switch {
		case s.account.declared:
			bytes = max(bytes, s.account.plan)
		case w.state.State() == WorkerStarting:
			bytes = max(bytes, w.place.bytes)
		}
		more += bytes - w.place.bytes
		w.place.bytes = bytes
	}
	if more != 0 || !s.account.declared && largest > 0 && largest != s.account.need {
		s.budget.weigh(s.account, more, largest)
	}
}

// freePlace finds a place for a process of the protocol Exec, and room for it in
// the budget. Pool.mu is held.
func (p *Pool) freePlace() *worker {
	i := len(p.idle) - 1
	if i < 0 && (len(p.workers) >= p.max || p.state.State() != Open) {
		return nil
	}
	if !p.admitStart(forTask) {
		return nil
	}
	if i < 0 {
		p.launch() // it gets no task by itself, having no room
		i = len(p.idle) - 1
	}
	w := p.idle[i]
	p.enter(w)
	return w
}

// reuse takes room for the next process in the place w, whose last one has ended
// and had peak bytes. Pool.mu is held.
func (p *Pool) reuse(w *worker, peak int64) {
	p.giveBack(w)
	if p.share == nil {
		return
	}
	if a := p.share.account; !a.declared && peak > 0 {
		p.share.budget.weigh(a, 0, max(peak, a.need-a.need/16))
	}
	if p.queue.n > 0 && w.state.State() == WorkerBusy && p.admitStart(forTask) {
		p.enter(w)
	}
}

// startable is how many of n more workers the budget has room for. Pool.mu is
// held.
func (p *Pool) startable(n int) int {
	if p.share == nil || n <= 0 {
		return n
	}
	return p.share.budget.free(p.share.account, n)
}

// placesFree is how many more processes of the protocol Exec may run. Pool.mu is
// held.
func (p *Pool) placesFree() int {
	busy := 0
	for _, w := range p.workers {
		if w.state.State() != WorkerIdle {
			busy++
		}
	}
	return p.startable(p.max - busy)
}
