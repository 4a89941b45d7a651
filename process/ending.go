package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Drain refuses new tasks, finishes all accepted ones, and ends the workers. It
// returns when nothing of the pool is left. When ctx ends first, Drain goes on
// as Close. The error is nil if all tasks were finished; see [bullpen.Executor].
func (p *Pool) Drain(ctx context.Context) error { return p.finishBy(ctx, Draining) }

// Stop refuses new tasks, ends those that have not started with
// bullpen.ErrClosed, finishes those that have, and ends the workers. When ctx
// ends first, Stop goes on as Close. The error is nil if all tasks that had
// started were finished; see [bullpen.Executor].
func (p *Pool) Stop(ctx context.Context) error { return p.finishBy(ctx, Stopping) }

// Close refuses new tasks, ends those that have not started with
// bullpen.ErrClosed, asks those that run to end, and kills their workers after
// the grace: they are bullpen.Canceled. It returns when nothing of the pool is
// left, and after Config.CloseGrace at the latest; then the error names what is
// stuck.
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
		cause = bullpen.ErrClosed // by another caller
	}
	return errors.Join(fmt.Errorf("process: %d tasks were aborted: %w", n, cause), err)
}

// aborted counts the tasks that the end of the pool has ended.
type aborted struct {
	waiting int // that had not started
	running int
}

// abortedFor is how many tasks were aborted of those that an ending is to finish.
func (p *Pool) abortedFor(to State) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.tally.aborted.running
	if to == Draining {
		n += p.tally.aborted.waiting
	}
	return n
}

// wait waits for the end of the pool, or for Close to give up.
func (p *Pool) wait() error {
	select {
	case <-p.over:
	case <-p.gaveUp:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endErr
}

// escalate moves the pool to the given state unless it is further on already.
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
			if w.count > 1 && w.page != nil {
				p.recall(w, protocol.Next(w.page.Started()), now)
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

// abort ends what w has in hand. Pool.mu is held.
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

// tendEnd lets the workers of a pool that ends leave, and reports whether
// nothing is left. Pool.mu is held.
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
		if p.informed.Load() == p.tally.accepted {
			return true
		}
		p.wakeBy(now + int64(growWait)) // a caller's function still runs
	}
	if p.closeBy != 0 {
		p.tendStuck(now)
	}
	return false
}

// tendStuck kills what has not ended by itself, and lets Close return when even
// that has not helped in time. Pool.mu is held.
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
		stuck = append(stuck, fmt.Errorf("worker %s (pid %d) has been killed and does not end: it may be in an uninterruptible system call", w.name, w.pid))
	}
	if n := p.tally.accepted - p.informed.Load(); n > 0 && len(stuck) == 0 {
		p.endErr = fmt.Errorf("process: %d outcomes are not told after %v: a function given to Submit does not return", n, p.config.CloseGrace)
		close(p.gaveUp)
		return
	}
	p.endErr = fmt.Errorf("process: %d workers are left after %v: %w", len(stuck), p.config.CloseGrace, errors.Join(stuck...))
	close(p.gaveUp)
}

// finish gives back what the pool itself holds, when no worker is left.
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
	p.closeFeeds()
	p.endErr = err
	p.mu.Unlock()
	p.logs.close()
	close(p.over)
}
