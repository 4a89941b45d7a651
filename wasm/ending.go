package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Drain refuses new tasks, finishes all accepted ones, and shuts down. If ctx ends first, it
// continues as Close. It returns nil if all tasks were finished; see [bullpen.Executor].
func (p *Pool) Drain(ctx context.Context) error { return p.finishBy(ctx, Draining) }

// Stop refuses new tasks, ends those that have not started with bullpen.ErrClosed, finishes
// those that have, and shuts down. If ctx ends first, it continues as Close. It returns nil
// if all started tasks were finished; see [bullpen.Executor].
func (p *Pool) Stop(ctx context.Context) error { return p.finishBy(ctx, Stopping) }

// Close refuses new tasks, ends those that have not started with bullpen.ErrClosed, stops
// those that have, which end as bullpen.Canceled, and shuts down. It returns when no
// instance is left, or at the latest after Config.CloseGrace, with an error that names what
// does not end.
func (p *Pool) Close() error {
	p.escalate(Closing)
	return p.wait()
}

func (p *Pool) finishBy(ctx context.Context, to State) error {
	before := p.abortedFor(to)
	p.escalate(to) //nolint:contextcheck // guests have contexts of their own
	select {
	case <-p.over:
	case <-ctx.Done():
		p.escalate(Closing) //nolint:contextcheck // guests have contexts of their own
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
	return errors.Join(fmt.Errorf("wasm %q: %d tasks were aborted: %w", p.config.Name, n, cause), err)
}

// abortedFor returns how many tasks were aborted that the ending to should have finished.
func (p *Pool) abortedFor(to State) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.counters.aborted
	if to == Draining {
		n += p.counters.dropped
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

// escalate moves the pool to the state to, unless it is already in that state or a later
// one.
func (p *Pool) escalate(to State) {
	var dropped []*call
	p.mu.Lock()
	if p.state.State() < to {
		if _, err := p.state.MoveAny(to); err != nil {
			p.counters.faults++
		}
		p.emit(Event{Kind: Changed, Text: to.String()})
		for b := p.blocked.pop(); b != nil; b = p.blocked.pop() {
			p.counters.refused++
			b.place <- p.because(b, bullpen.ErrClosed)
		}
		for to >= Stopping && p.queue.first != nil {
			c := p.queue.first
			p.drop(c, bullpen.ErrClosed)
			p.counters.dropped++
			dropped = append(dropped, c)
		}
		if to == Closing {
			for c := p.running.first; c != nil; c = c.next {
				c.instance.stop(c.number, bullpen.ErrClosed)
			}
			p.patience = time.AfterFunc(p.config.CloseGrace, p.giveUp) // its goroutine ends at once; finish stops the timer
		}
		p.madeRoom()
		p.tryFinish()
	}
	p.mu.Unlock()
	for _, c := range dropped {
		p.deliver(c)
	}
}

// giveUp lets Close return although tasks go on.
func (p *Pool) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.State() == Closed {
		return
	}
	var stuck []error
	for c := p.running.first; c != nil; c = c.next {
		stuck = append(stuck, fmt.Errorf("task %q in %s was stopped and does not end: it may be in a file operation that hangs", c.task.Name, c.instance.name))
	}
	if len(stuck) == 0 {
		stuck = append(stuck, errors.New("a function given to Submit does not return"))
	}
	p.endErr = fmt.Errorf("wasm %q: %d tasks are left after %v: %w", p.config.Name, p.open, p.config.CloseGrace, errors.Join(stuck...))
	close(p.gaveUp)
}

// tryFinish ends the pool if nothing is left to wait for. mu is held.
func (p *Pool) tryFinish() {
	if p.open > 0 || p.state.State() == Open || p.state.State() == Closed {
		return
	}
	if _, err := p.state.MoveAny(Closed); err != nil {
		p.counters.faults++
	}
	idle := p.idle
	p.idle = nil
	if p.patience != nil {
		p.patience.Stop()
	}
	if p.pruner != nil {
		p.pruner.Stop()
	}
	go p.finish(idle) // ends when all is released; wait waits for it
}

// finish releases the resources of the pool when no task is left.
func (p *Pool) finish(idle []*instance) {
	p.alarm.close()
	for _, i := range idle {
		i.discard()
	}
	err := errors.Join(p.workers.Close(), p.module.close())
	p.said.Close()
	p.log.Wait()
	p.emit(Event{Kind: Changed, Text: Closed.String()})
	p.events.Close()
	p.mu.Lock()
	if p.endErr == nil {
		p.endErr = err
	}
	p.mu.Unlock()
	close(p.over)
}
