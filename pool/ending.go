package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// State returns the state of the pool.
func (p *Pool) State() State { return p.state.State() }

// ending reports whether the pool accepts no more tasks.
func (p *Pool) ending() bool { return p.state.State() != Open }

// Drain refuses new tasks, finishes all accepted ones including delayed ones, and shuts
// down. If ctx ends first, it continues as Close. It returns nil if all tasks were
// finished; see [bullpen.Executor].
func (p *Pool) Drain(ctx context.Context) error { return p.end(ctx, Draining) }

// Stop refuses new tasks, fails those that have not started with bullpen.ErrClosed,
// finishes those that have, and shuts down. If ctx ends first, it continues as Close. It
// returns nil if all tasks that had started were finished; see [bullpen.Executor].
func (p *Pool) Stop(ctx context.Context) error { return p.end(ctx, Stopping) }

// Close refuses new tasks, fails those that have not started, cancels those that have, and
// shuts down. The error names the bodies that go on after the grace (Config.CloseGrace).
// Their callers get the outcome Canceled, and their goroutines end when they return.
func (p *Pool) Close() error { return p.end(context.Background(), Closing) }

func (p *Pool) end(ctx context.Context, level State) error {
	before := p.abortedFor(level)
	p.raise(level)
	select {
	case <-p.gone:
	case <-ctx.Done():
		p.raise(Closing)
		<-p.gone
	}
	p.journal.log.Wait()
	p.ended.Do(func() {
		for _, f := range p.endings() {
			f()
		}
	})
	return errors.Join(p.shortfall(ctx, level, before), p.stuckBodies())
}

// shortfall returns an error if a stronger call has aborted some of the tasks that this
// call had to finish. before is how many were aborted before this call began.
func (p *Pool) shortfall(ctx context.Context, level State, before uint64) error {
	n := p.abortedFor(level) - before
	if n == 0 {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == nil {
		cause = bullpen.ErrClosed // by another caller
	}
	return fmt.Errorf("pool %q: %d tasks were aborted: %w", p.config.Name, n, cause)
}

// abortedFor returns how many of the tasks that a call of this level has to finish were
// aborted by the shutdown.
func (p *Pool) abortedFor(level State) (n uint64) {
	if level == Draining {
		n = p.counters.unstarted.Load()
	}
	if level <= Stopping {
		n += p.counters.aborted.Load()
	}
	return n
}

// stuckBodies returns an error that names the bodies that go on after the end.
func (p *Pool) stuckBodies() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) == 0 {
		return nil
	}
	return fmt.Errorf("pool %q is closed, but %d bodies still run after their cancellation: %s",
		p.config.Name, len(p.left), strings.Join(p.left, ", "))
}

// atEnd registers f to be called when the pool has ended.
func (p *Pool) atEnd(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closers = append(p.closers, f)
}

func (p *Pool) endings() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closers
}

// raise makes the shutdown at least as strong as level.
func (p *Pool) raise(level State) {
	if !p.moveTo(level) {
		return
	}
	reason := p.closedError()
	empty := level >= Stopping
	dropped := 0
	for _, g := range p.admissions() {
		g.close(reason)
		for _, q := range g.queues {
			if empty {
				dropped += p.failAll(q.empty(reason), reason)
			}
		}
	}
	if empty {
		dropped += p.failAll(p.dropDelayed(), reason)
		for _, w := range p.seats(nil) {
			dropped += p.failAll(w.surrender(), reason)
		}
	}
	p.counters.unstarted.Add(uint64(dropped))
	p.dropped(dropped)
	if level == Closing {
		p.cancelRunning(reason)
	}
	p.dismissAll()
	p.room.Notify()
	p.hold(-1)
}

// moveTo moves the pool to level, or returns false if it is already there or beyond. It
// also holds the pool until the waiting tasks have been failed.
func (p *Pool) moveTo(level State) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := p.state.State()
		if now >= level || now == Closed {
			return false
		}
		if p.state.Move(now, level) == nil {
			p.alive++
			p.journal.emit(Event{Kind: Changed, Text: level.String()})
			return true
		}
	}
}

func (p *Pool) closedError() error {
	return fmt.Errorf("pool %q: %w", p.config.Name, bullpen.ErrClosed)
}

// failAll ends items that never started, and returns their number.
func (p *Pool) failAll(items []item, reason error) int {
	for _, it := range items {
		p.failed(it, reason)
	}
	return len(items)
}

func (p *Pool) failed(it item, reason error) {
	if it.named() == nil {
		p.main.kind.neverStarted()
	}
	it.fail(reason)
}

// cancelRunning ends the contexts of all running tasks, and starts the timer of Close's
// grace.
func (p *Pool) cancelRunning(reason error) {
	close(p.done)
	p.cancelSpans(reason)
	for _, w := range p.seats(nil) {
		if c := w.context.Load(); c != nil {
			c.cancel(context.Canceled, reason)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.visitors {
		go c.cancel(context.Canceled, reason) // it takes mu; ends at once
	}
	if p.state.State() == Closing {
		p.grace = time.AfterFunc(p.config.CloseGrace, p.giveUp) // stopped by tryFinish
	}
}

// giveUp ends a Close whose grace is over: tasks that still run are answered, named, and
// left running.
func (p *Pool) giveUp() {
	p.hold(1)
	p.mu.Lock()
	var left []*worker
	for w := range p.workers {
		left = append(left, w)
		delete(p.workers, w)
		p.alive--
	}
	for c := range p.visitors {
		p.left = append(p.left, c.named().name+" in its caller")
	}
	p.mu.Unlock()
	for _, w := range left {
		name := w.forsake()
		p.mu.Lock()
		p.left = append(p.left, name)
		slices.Sort(p.left)
		p.mu.Unlock()
	}
	p.guests.Store(-1 << 32) // from now on, callers' goroutines are not waited for
	p.hold(-1)
}

// forsaker is an item that can be answered while its body keeps running or is about to start.
type forsaker interface {
	// forsake reports whether it has answered a task that had started.
	forsake() bool
}

// forsake answers the task that the worker runs, and returns a name for it.
func (w *worker) forsake() string {
	p := w.pool
	p.bench.mu.Lock()
	p.freeze()
	var it item
	if first, _ := w.held(); first > 0 {
		it = w.items[first-1]
	}
	if w.flags.Load()&flagStuck == 0 {
		w.flags.Or(flagStuck | flagForsaken)
		p.stuck.Add(1)
	}
	p.thaw()
	p.bench.mu.Unlock()
	if it == nil {
		return w.name()
	}
	k := p.kindOf(it)
	if f, ok := it.(forsaker); ok && f.forsake() {
		w.home.of(k).outcomes[bullpen.Canceled].Add(1)
		p.counters.aborted.Add(1)
	}
	return k.name + " in " + w.name()
}

func (j *job[A, R]) forsake() bool   { return j.giveUpOn(genOf(j.word.Load())) }
func (c *taskContext) forsake() bool { return c.head.giveUpOn(c.gen) }

// giveUpOn answers a task that a worker holds at the end of the pool. A task that has not
// started never starts. The locks keep the keeper from answering a running one at the same
// time.
func (h *head) giveUpOn(gen uint64) (started bool) {
	p := h.target.pool
	for {
		word := h.word.Load()
		switch {
		case genOf(word) == gen && stateOf(word) == TaskQueued:
			h.revoke(gen, p.closedError())
		case genOf(word) == gen && stateOf(word) == TaskRunning:
			p.freeze()
			started = h.abandon(gen)
			p.thaw()
			if started {
				h.wakeWaiters()
				return true
			}
		default:
			return false
		}
	}
}

// hold keeps the pool from ending while the sum of all n is above zero.
func (p *Pool) hold(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive += n
	p.tryFinish()
}

// tryFinish ends the pool if nothing is left to wait for. mu is held.
func (p *Pool) tryFinish() {
	if p.alive > 0 || p.guests.Load() > 0 || !p.ending() || p.state.State() == Closed {
		return
	}
	if p.waiting() > 0 {
		return
	}
	if _, err := p.state.MoveAny(Closed); err != nil {
		return
	}
	if p.grace != nil {
		p.grace.Stop()
	}
	p.journal.emit(Event{Kind: Changed, Text: Closed.String()})
	p.journal.Close()
	go p.keeper.end() // it may be waiting for mu
	close(p.gone)
}

// quits lets a worker exit that has found no work in a pool that is shutting down.
func (p *Pool) quits(w *worker) bool {
	if !p.ending() {
		return false
	}
	delta := uint64(oneWorker)
	if w.searching {
		delta += oneSearching
	}
	w.searching = false
	p.workerCounts.Add(^(delta - 1))
	if p.work() {
		p.callOne() // for tasks that arrived after its last look
	}
	return true
}
