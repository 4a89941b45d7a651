package wasm

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// runner runs calls in a goroutine of the pool below, one after the other, until none waits.
type runner struct {
	pool  *Pool
	first *call
	run   func() // made once, so that a task costs none
}

func newRunner(p *Pool) *runner {
	r := &runner{pool: p}
	r.run = func() {
		c := r.first
		r.first = nil
		p.runners.Put(r)
		for c != nil {
			c = p.serve(c)
		}
	}
	return r
}

// start runs a call that has its instance in another goroutine.
func (p *Pool) start(c *call) {
	r := p.runners.Get().(*runner)
	r.first = c
	if err := p.workers.Go(context.Background(), r.run); err != nil {
		go r.run() // the pool below ends after this one, so this does not happen; ends with its tasks, which finish waits for
	}
}

// enter accepts c or returns why not. If start is true, the caller must run c.
func (p *Pool) enter(c *call) (start bool, err error) {
	p.mu.Lock()
	if err := p.refusal(c); err != nil {
		p.counters.refused++
		p.mu.Unlock()
		c.forget()
		return false, err
	}
	switch {
	case p.running.n < p.config.Max && p.queue.n == 0:
		p.open++
		p.give(c)
		p.mu.Unlock()
		return true, nil
	case p.queue.n < p.config.Queue:
		p.place(c)
		p.mu.Unlock()
		return false, nil
	}
	p.counters.overloaded++
	switch p.config.Overflow {
	case Reject:
		p.counters.refused++
		p.mu.Unlock()
		err := p.because(c, bullpen.ErrOverloaded)
		c.forget()
		return false, err
	case DropOldest:
		old := p.queue.first
		p.drop(old, fmt.Errorf("%w: a newer task displaced it", bullpen.ErrOverloaded))
		p.place(c)
		p.mu.Unlock()
		p.deliver(old)
		return false, nil
	default:
		place := make(chan error, 1)
		c.place = place
		p.blocked.push(c)
		p.mu.Unlock()
		err := <-place // the end of its context and that of the pool are reasons too
		if err != nil {
			c.forget()
		}
		return false, err
	}
}

// refusal returns why no task, or not this one, is accepted. mu is held.
func (p *Pool) refusal(c *call) error {
	cause := c.cause
	if cause == nil && c.ctx.Done() != nil && c.ctx.Err() != nil {
		cause = context.Cause(c.ctx)
	}
	if p.state.State() != Open {
		cause = bullpen.ErrClosed
	}
	if cause == nil {
		return nil
	}
	return p.because(c, cause)
}

// because returns the error of a call that never starts.
func (p *Pool) because(c *call, cause error) error {
	return fmt.Errorf("wasm %q: task %q: %w", p.config.Name, c.task.Name, cause)
}

// move moves the state of c. The tables allow all moves that this package makes. mu is held.
func (p *Pool) move(c *call, to taskState) {
	if _, err := c.state.MoveAny(to); err != nil {
		p.counters.faults++
		p.emit(Event{Kind: Fault, Task: c.task.Name, Text: err.Error()})
	}
}

// place puts c into the queue. mu is held.
func (p *Pool) place(c *call) {
	p.open++
	p.move(c, taskWaiting)
	p.queue.push(c)
}

// give gives c an instance. mu is held.
func (p *Pool) give(c *call) {
	p.move(c, taskRunning)
	p.running.push(c)
	c.instance = p.take()
	c.number = c.instance.begin()
	p.counters.started++
}

// drop ends a call that never started; the caller delivers it. mu is held.
func (p *Pool) drop(c *call, cause error) {
	c.in.remove(c)
	p.move(c, taskEnded)
	c.err = p.because(c, cause)
	c.result.Stats.Waited = duration(p.now() - c.accepted)
	p.counters.never++
	p.admit()
}

// admit lets blocked calls into the queue as far as there are places. mu is held.
func (p *Pool) admit() {
	for p.queue.n < p.config.Queue {
		b := p.blocked.pop()
		if b == nil {
			return
		}
		p.place(b)
		b.place <- nil
	}
}

// proceed takes the next call from the queue and gives it an instance; it returns nil if
// none waits. mu is held.
func (p *Pool) proceed() *call {
	if p.running.n >= p.config.Max {
		return nil
	}
	c := p.queue.pop()
	if c == nil {
		return nil
	}
	p.give(c)
	p.admit()
	return c
}

// cancel ends a call because its context has ended.
func (p *Pool) cancel(c *call, cause error) {
	p.mu.Lock()
	switch c.state.State() {
	case taskNew:
		c.cause = cause
		if c.in != nil { // it is blocked
			c.in.remove(c)
			p.counters.refused++
			c.place <- p.because(c, cause)
		}
	case taskWaiting:
		p.drop(c, cause)
		p.madeRoom()
		p.mu.Unlock()
		p.deliver(c)
		return
	case taskRunning:
		c.instance.stop(c.number, cause)
	default:
	}
	p.mu.Unlock()
}

// deliver hands over the outcome of a call that has ended. The call may be recycled by then.
func (p *Pool) deliver(c *call) {
	defer p.delivered() // even if done panics
	if c.done == nil {
		c.ready <- struct{}{}
		return
	}
	done, r, err := c.done, c.result, c.err
	c.forget()
	done(r, err)
}

// delivered counts an outcome that was delivered, and ends the pool with the last one.
func (p *Pool) delivered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.tryFinish()
}
