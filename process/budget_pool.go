package process

import (
	"fmt"
	"time"
)

// share connects a pool to its Budget. Some methods may be called on nil, for a pool
// without a budget. Pool.mu guards the fields from lined on.
type share struct {
	budget  *Budget
	account *account
	offset  int64 // the pool's epoch in the budget's time

	lined bool // the pool waits for room
	asks  bool // it was refused room in this pass of the keeper
}

// lease is the room of a worker in a budget. Pool.mu guards it.
type lease struct {
	held  bool
	bytes int64 // that the worker counts with
	how   departure
}

// joinBudget opens the pool's account.
func (p *Pool) joinBudget() error {
	c := p.config
	if c.Budget == nil {
		return nil
	}
	a := &account{name: c.Name, min: c.Min, plan: DefaultNeed, gives: !c.perTask, poke: p.nudge, room: &p.room}
	for _, need := range []int64{c.Need, c.Limits.Memory} {
		if need > 0 {
			a.plan, a.declared = need, true
			break
		}
	}
	a.need = a.plan
	if err := c.Budget.join(a); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	// The keeper is not started yet, so no lock is needed.
	p.share = &share{budget: c.Budget, account: a, offset: int64(p.epoch.Sub(c.Budget.epoch))}
	return nil
}

// leaveBudget closes the account of a pool that has ended, or that New could not
// create.
func (p *Pool) leaveBudget() {
	if p.share != nil {
		p.share.budget.leave(p.share.account)
	}
}

// nudge wakes the keeper. It takes no lock.
func (p *Pool) nudge() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// admitStart requests room for one worker from the budget, and reports whether there
// was some. If not, the keeper is woken when there is. Pool.mu is held.
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
	if p.config.perTask {
		p.launch() // its processes request room themselves
		return true
	}
	if !p.admitStart(why) {
		return false
	}
	p.launch()
	p.enter(p.workers[len(p.workers)-1])
	return true
}

// enter records that w has got room. Pool.mu is held.
func (p *Pool) enter(w *worker) {
	if p.share != nil {
		w.lease = lease{held: true, bytes: p.share.account.need}
		w.resident = 0 // the old value is of an earlier process
	}
}

// giveBack releases the room of w, whose process has ended. Pool.mu is held.
func (p *Pool) giveBack(w *worker) {
	if w.lease.held {
		p.share.budget.release(p.share.account, w.lease.bytes, w.lease.how)
		w.lease = lease{}
	}
}

// launchSuccessor starts a worker that replaces old. If the budget has no room for
// both, old leaves first. Pool.mu is held.
func (p *Pool) launchSuccessor(old *worker, now int64) {
	if p.share == nil || p.config.perTask {
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
		p.wakeBy(now + int64(memoryEvery)) // new workers fail to start: keep the old one
	}
}

// showIdle publishes to the budget since when the pool has an idle worker, and how many
// it has. Pool.mu is held.
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

// restedFor checks whether another pool needs the room of w, which has just become
// idle. Pool.mu is held.
func (p *Pool) restedFor(w *worker, now int64) {
	if p.share == nil {
		return
	}
	if p.config.perTask {
		p.giveBack(w) // the task that it was taken for did not come
		return
	}
	p.showIdle()
	if p.share.budget.ledger.short.Load() {
		p.wakeBy(now + int64(growWait))
	}
}

// beginLook starts a pass of the keeper, in which asks records whether the pool still
// wants room. Pool.mu is held.
func (s *share) beginLook() {
	if s != nil {
		s.asks = false
	}
}

// waits reports whether the pool was refused room in this pass. The budget then pokes
// it when there is room. Pool.mu is held.
func (s *share) waits() bool { return s != nil && s.asks }

// tendBudget lets workers leave for other pools, and ends a wait for room that is no
// longer needed. Pool.mu is held.
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
	w.lease.how = how
	p.retire(w, ByBudget, now)
	p.showIdle()
}

// mayCede reports whether the pool has more workers than it must keep. Pool.mu is held.
func (p *Pool) mayCede() bool {
	n := 0
	for _, w := range p.workers {
		if s := w.state.State(); w.lease.held && s != WorkerLeaving && s != WorkerGone {
			n++
		}
	}
	return n > p.min
}

// leastWorth returns the idle worker with the largest product of size and idle time,
// nil if the pool has none to give. Pool.mu is held.
func (p *Pool) leastWorth(now int64) *worker {
	var least *worker
	waste := 0.0
	if !p.mayCede() {
		return nil
	}
	for _, w := range p.idle {
		if v := float64(now-w.idleSince+1) * float64(max(w.lease.bytes, 1)); w.lease.held && v > waste {
			least, waste = w, v
		}
	}
	return least
}

// leastBusy returns the worker with the fewest tasks, nil if the pool has none to give.
// Pool.mu is held.
func (p *Pool) leastBusy() *worker {
	var least *worker
	if !p.mayCede() {
		return nil
	}
	for _, w := range p.workers {
		if s := w.state.State(); (s == WorkerIdle || s == WorkerBusy) && w.lease.held && (least == nil || w.count < least.count) {
			least = w
		}
	}
	return least
}

// weighs reports whether the budget bounds memory.
func (s *share) weighs() bool { return s != nil && s.budget.config.Memory > 0 }

// weigh records the measured resident sizes. Pool.mu is held.
func (p *Pool) weigh() {
	s := p.share
	if !s.weighs() {
		return
	}
	var more, largest int64
	for _, w := range p.workers {
		if !w.lease.held || w.resident == 0 || w.exited {
			continue
		}
		largest = max(largest, w.resident)
		bytes := w.resident
		switch {
		case s.account.declared:
			bytes = max(bytes, s.account.plan)
		case w.state.State() == WorkerStarting:
			bytes = max(bytes, w.lease.bytes)
		}
		more += bytes - w.lease.bytes
		w.lease.bytes = bytes
	}
	if more != 0 || !s.account.declared && largest > 0 && largest != s.account.need {
		s.budget.weigh(s.account, more, largest)
	}
}

// freePlace returns a worker that is free for the process of a task, with room in the
// budget, or nil. Pool.mu is held.
func (p *Pool) freePlace() *worker {
	i := len(p.idle) - 1
	if i < 0 && (len(p.workers) >= p.max || p.state.State() != Open) {
		return nil
	}
	if !p.admitStart(forTask) {
		return nil
	}
	if i < 0 {
		p.launch() // it costs nothing
		if i = len(p.idle) - 1; i < 0 {
			return nil // without a budget it has taken the first waiting task
		}
	}
	w := p.idle[i]
	p.enter(w)
	return w
}

// reuse requests room for the next process in slot w. The last one has ended; its peak
// memory was peak bytes. Pool.mu is held.
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

// startable returns how many of n more workers the budget has room for. Pool.mu is
// held.
func (p *Pool) startable(n int) int {
	if p.share == nil || n <= 0 {
		return n
	}
	return p.share.budget.free(p.share.account, n)
}

// placesFree returns how many more processes of one task each may run. Pool.mu is held.
func (p *Pool) placesFree() int {
	busy := 0
	for _, w := range p.workers {
		if w.state.State() != WorkerIdle {
			busy++
		}
	}
	return p.startable(p.max - busy)
}
