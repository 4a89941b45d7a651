package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// Drain refuses new tasks, finishes all accepted ones, and ends the workers. It returns
// when the pool has ended completely. When ctx ends first, Drain continues as Close.
// The error is nil if all tasks were finished; see [bullpen.Executor].
func (p *Pool) Drain(ctx context.Context) error { return p.finishBy(ctx, Draining) }

// Stop refuses new tasks, ends those that have not started with bullpen.ErrClosed,
// finishes those that have, and ends the workers. When ctx ends first, Stop continues
// as Close. The error is nil if all started tasks were finished; see
// [bullpen.Executor].
func (p *Pool) Stop(ctx context.Context) error { return p.finishBy(ctx, Stopping) }

// Close refuses new tasks and ends those that have not started with bullpen.ErrClosed.
// It asks running tasks to end and kills their workers after the grace period; these
// tasks end as bullpen.Canceled. Close returns when the pool has ended completely, or
// at the latest after Config.CloseGrace, with an error that names what is stuck.
func (p *Pool) Close() error {
	p.escalate(Closing)
	return p.wait()
}

func (p *Pool) finishBy(ctx context.Context, to State) error {
	before := p.abortedFor(to)
	p.escalate(to)
	select {
	case <-p.over:
	case <-ctx.Done():
		p.escalate(Closing)
	}
	err := p.wait()
	n := p.abortedFor(to) - before
	if n == 0 {
		return err
	}
	cause := context.Cause(ctx)
	if cause == nil {
		cause = bullpen.ErrClosed // another caller used a stronger ending
	}
	return errors.Join(fmt.Errorf("process: %d tasks were aborted: %w", n, cause), err)
}

// aborted counts the tasks that were aborted by the end of the pool.
type aborted struct {
	waiting int // had not started
	running int
}

// abortedFor returns how many tasks were aborted that the ending to should have
// finished.
func (p *Pool) abortedFor(to State) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.counters.aborted.running
	if to == Draining {
		n += p.counters.aborted.waiting
	}
	return n
}

// wait waits until the pool has ended or Close gives up.
func (p *Pool) wait() error {
	select {
	case <-p.over:
	case <-p.gaveUp:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endErr
}

// escalate moves the pool to the state to, unless it is already in that state or a
// later one.
func (p *Pool) escalate(to State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.State() >= to {
		return
	}
	if _, err := p.state.MoveAny(to); err != nil {
		p.logs.fault(err)
		return
	}
	now := p.now()
	p.emit(Event{Kind: Changed, Text: to.String()})
	if to >= Stopping {
		p.failWaiting(bullpen.ErrClosed)
		for _, w := range p.workers {
			if w.count > 1 {
				w.driver.takeBack(0, now)
			}
		}
	}
	if to == Closing {
		p.closeBy = now + int64(p.config.CloseGrace)
		for _, w := range p.workers {
			p.abort(w, now)
		}
	}
	p.wakeReady()
	p.wakeBy(0)
	p.madeRoom()
}

// abort ends the tasks assigned to w. Pool.mu is held.
func (p *Pool) abort(w *worker, now int64) {
	if w.state.State() == WorkerStarting {
		p.kill(w, ByEnd, nil)
		return
	}
	for _, c := range w.flight {
		if c != nil && c.cause == nil {
			c.cause = bullpen.ErrClosed
		}
	}
	p.attend(w, now)
}

// tendEnd lets the workers of an ending pool leave, and reports whether the pool has
// ended. Pool.mu is held.
func (p *Pool) tendEnd(now int64) bool {
	state := p.state.State()
	if state == Open {
		return false
	}
	if p.queue.n == 0 && len(p.blocked.all) == 0 {
		p.forkServer.abandon()
		for _, w := range p.workers {
			switch w.state.State() {
			case WorkerStarting:
				p.kill(w, ByEnd, nil)
			case WorkerIdle, WorkerBusy:
				p.retire(w, ByEnd, now)
			default:
			}
		}
	}
	if len(p.workers) == 0 && p.queue.n == 0 {
		if p.informed.Load() == p.counters.accepted {
			return true
		}
		p.wakeBy(now + int64(growWait)) // a done function still runs
	}
	if p.closeBy != 0 {
		p.tendStuck(now)
	}
	return false
}

// tendStuck kills workers that have not ended by themselves, and lets Close return if
// that does not help in time. Pool.mu is held.
func (p *Pool) tendStuck(now int64) {
	if now < p.closeBy {
		p.wakeBy(p.closeBy)
		if now >= p.closeBy-int64(p.config.CloseGrace)/2 {
			for _, w := range p.workers {
				p.kill(w, ByEnd, nil)
			}
		}
		return
	}
	select {
	case <-p.gaveUp:
		return
	default:
	}
	var stuck []error
	for _, w := range p.workers {
		p.kill(w, ByEnd, nil)
		stuck = append(stuck, fmt.Errorf("worker %s (pid %d) was killed and does not end: it may be in an uninterruptible system call", w.name, w.pid))
	}
	if n := p.counters.accepted - p.informed.Load(); n > 0 && len(stuck) == 0 {
		p.endErr = fmt.Errorf("process: %d outcomes are not delivered after %v: a function given to Submit does not return", n, p.config.CloseGrace)
		close(p.gaveUp)
		return
	}
	p.endErr = fmt.Errorf("process: %d workers are left after %v: %w", len(stuck), p.config.CloseGrace, errors.Join(stuck...))
	close(p.gaveUp)
}

// finish releases the resources of the pool when no worker is left.
func (p *Pool) finish() {
	err := p.spawn.Close()
	p.tasks.Wait()
	err = errors.Join(p.forkServer.close(), err, p.closeIsolation())
	p.leaveBudget()
	p.mu.Lock()
	if _, e := p.state.MoveAny(Closed); e != nil {
		p.logs.fault(e)
	}
	p.emit(Event{Kind: Changed, Text: Closed.String()})
	p.events.Close()
	p.endErr = err
	p.mu.Unlock()
	p.logs.close()
	close(p.over)
}
