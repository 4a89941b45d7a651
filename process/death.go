package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// kill kills the process of w. victim is the task that made it necessary, or nil.
// Pool.mu is held.
func (p *Pool) kill(w *worker, cause Cause, victim *call) {
	if !w.killed {
		w.killed, w.cause, w.victim = true, cause, victim
	}
	if w.child == nil || w.exited {
		return // start checks killed, or the process has ended
	}
	if err := w.child.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.logs.fault(fmt.Errorf("worker %s (pid %d) could not be killed: %w", w.name, w.pid, err))
	}
}

// hungUp handles a worker that has violated the protocol, as fault says, or closed its
// end of the channel, and may still be alive.
func (p *Pool) hungUp(w *worker, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault != nil {
		w.fault = fault
		p.kill(w, ByProtocol, nil)
		return
	}
	// The end of file comes a moment before the exit.
	w.broken = true
	w.overdueBy(p.now() + int64(p.config.Grace))
}

// settle accounts for the end of w, once its process is reaped, all its output is read,
// and no goroutine writes to it. Several goroutines call settle; the one that finds all
// of that true does the work.
func (p *Pool) settle(w *worker) {
	p.mu.Lock()
	if !w.exited || !w.drained || w.writing || w.streams > 0 {
		p.mu.Unlock()
		return
	}
	from, err := w.state.MoveAny(WorkerGone)
	if err != nil {
		p.mu.Unlock()
		return // another goroutine has settled it
	}
	now := p.now()
	if errors.Is(w.fault, errNoAnswer) && w.exit.Signal != syscall.SIGKILL {
		// The process was exiting when it was killed for having closed its end of the
		// channel. Its own exit counts.
		w.fault, w.killed = nil, false
	}
	p.leave(w, from)
	ended := p.verdicts(w)
	p.report(w, from, now)
	p.mu.Unlock()
	w.driver.close()
	for _, c := range ended {
		p.deliver(c)
	}
	if err := p.freeIsolation(&w.isolation); err != nil {
		p.logs.fault(fmt.Errorf("worker %s: removing what it left behind: %w", w.name, err))
	}
	p.mu.Lock()
	p.workers = slices.DeleteFunc(p.workers, func(other *worker) bool { return other == w })
	p.wakeReady()
	p.wakeBy(0)
	p.madeRoom()
	p.mu.Unlock()
}

// leave removes w from the counts. Pool.mu is held.
func (p *Pool) leave(w *worker, from WorkerState) {
	switch from {
	case WorkerStarting:
		p.starting--
	case WorkerIdle:
		if i := slices.Index(p.idle, w); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
		p.showIdle()
	case WorkerLeaving:
		p.leaving--
	default:
	}
	p.giveBack(w)
}

// stopped counts a planned end of a worker. Pool.mu is held.
func (p *Pool) stopped(cause Cause) {
	p.counters.stopped++
	p.counters.stops[cause]++
}

// report emits the event for the end of w, and counts failed starts. Pool.mu is held.
func (p *Pool) report(w *worker, from WorkerState, now int64) {
	e := Event{Worker: w.name, PID: w.pid, Cause: w.cause, Text: w.exit.String()}
	if w.fault != nil {
		e.Text, e.Err = w.fault.Error(), w.fault
	}
	switch {
	case w.startErr != nil || from == WorkerStarting || w.neverServed():
		if w.killed && w.cause == ByEnd {
			e.Kind = Stopped
			p.stopped(e.Cause)
		} else {
			p.startFailed(w, now)
			return
		}
	case from == WorkerLeaving && !(w.killed && w.cause >= ByExit):
		e.Kind = Stopped
		p.stopped(e.Cause)
	default:
		e.Kind = Died
		switch {
		case w.starved():
			e.Cause, e.Err = ByBound, &MemoryError{Bound: w.bound, Peak: w.usage.Peak}
			e.Text = e.Err.Error()
		case !w.killed:
			e.Cause = ByExit
			if w.exit.Signal != 0 {
				e.Cause = BySignal
			}
		}
		p.counters.deaths[e.Cause]++
	}
	p.emit(e)
}

// neverServed reports whether a worker that does not report that it is ready never
// worked: it exited with an error before its first answer, or read its input without
// answering.
func (w *worker) neverServed() bool {
	if w.pool.config.greets || w.served > 0 {
		return false
	}
	return w.hint != nil || !w.killed && w.exit.Signal == 0 && w.exit.Code != 0
}

// startFailed counts a failed start. After breakAfter failures with no worker alive it
// ends the waiting tasks. Pool.mu is held.
func (p *Pool) startFailed(w *worker, now int64) {
	p.failures++
	p.counters.failedStarts++
	e := &StartError{
		Command: p.config.Command, Failures: p.failures, Err: w.startErr, Stderr: w.tail.text(),
		Strict: p.config.Sandbox.Profile == ProfileStrict && w.startErr == nil,
	}
	switch {
	case w.startErr != nil:
	case w.starved():
		e.Err = &MemoryError{Bound: w.bound, Peak: w.usage.Peak}
	case w.fault != nil:
		e.Err = w.fault
	case w.hint != nil:
		e.Err = w.hint
	case w.killed && w.cause == BySilence:
		e.Err = fmt.Errorf("it did not become ready within %v", p.config.StartTimeout)
	default:
		e.Exit = w.exit.String()
	}
	p.startErr = e
	p.nextStart = now + int64(backoff(p.failures))
	p.wakeBy(p.nextStart)
	p.emit(Event{Kind: StartFailed, Worker: w.name, PID: w.pid, Text: e.Error(), Err: e})
	if p.failures == breakAfter {
		p.emit(Event{Kind: Opened, Text: e.Error(), Err: e})
	}
	if p.failures < breakAfter || p.alive() > 0 {
		p.wakeReady()
		return
	}
	p.failWaiting(e)
	p.wakeReady()
}

// alive returns the number of workers that can take tasks. Pool.mu is held.
func (p *Pool) alive() int { return len(p.idle) + p.busy() }

// busy returns the number of busy workers. Pool.mu is held.
func (p *Pool) busy() int {
	n := 0
	for _, w := range p.workers {
		if w.state.State() == WorkerBusy {
			n++
		}
	}
	return n
}

// failWaiting ends every waiting task with err. Pool.mu is held.
func (p *Pool) failWaiting(err error) {
	for p.queue.n > 0 {
		c := p.queue.first
		p.queue.remove(c)
		p.endLater(c, err)
	}
	for len(p.blocked.all) > 0 {
		p.endLater(p.blocked.pop(), err)
	}
}
