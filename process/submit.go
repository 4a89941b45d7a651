package process

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// errRunTime is the cause of the end of a task that exceeded its run-time limit.
var errRunTime = errors.New("run-time limit reached")

// Submit submits t, see [bullpen.Executor]. The pool calls done on one of its own
// goroutines. done should not block: one that does delays other outcomes by a
// millisecond, occupies a place in the queue until it returns, and delays the end of
// the pool.
func (p *Pool) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if done == nil {
		return errors.New("process: Submit needs a function to call with the outcome")
	}
	c := &call{done: done}
	c.state.Init(&taskStates, taskWaiting)
	w := &waiter{admitted: make(chan struct{})}
	if err := p.submit(ctx, c, t, w, nil); err != nil {
		return err
	}
	if ctx.Done() == nil {
		<-w.admitted
		return nil
	}
	select {
	case <-w.admitted:
	case <-ctx.Done():
		if err := p.withdraw(c, context.Cause(ctx)); err != nil {
			return err
		}
	}
	p.watch(ctx, c)
	return nil
}

// watch cancels c when ctx ends. The watch itself ends with the task.
func (p *Pool) watch(ctx context.Context, c *call) {
	unwatch := context.AfterFunc(ctx, func() { p.cancel(c, context.Cause(ctx)) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state.State() == taskEnded {
		unwatch()
		return
	}
	c.unwatch = unwatch
}

// Execute runs t and returns its outcome. When ctx ends, a task that has not started is
// taken back immediately. A running task is asked to end, and its worker is killed
// after the grace period. In both cases Execute returns the one outcome of the task.
func (p *Pool) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	c := newCall()
	var spinOn *stream
	if err := p.submit(ctx, c, t, nil, &spinOn); err != nil {
		c.recycle()
		return bullpen.Result{}, err
	}
	if spinOn == nil || !spinOn.await(c) {
		if ctx.Done() == nil {
			<-c.ready
		} else {
			select {
			case <-c.ready:
			case <-ctx.Done():
				p.cancel(c, context.Cause(ctx))
				<-c.ready
			}
		}
	}
	result, err := c.result, c.err
	c.recycle()
	return result, err
}

// submit checks t and accepts it as c. It gives c to a worker, or else puts c into the
// queue. If the queue is full and callers wait, c waits behind it with w, which is nil
// for a caller that is not notified of the admission. If spinOn is not nil, submit sets
// it to the worker whose answer is worth spinning for.
func (p *Pool) submit(ctx context.Context, c *call, t bullpen.Task, w *waiter, spinOn **stream) error {
	if err := ctx.Err(); err != nil {
		return p.refuse(context.Cause(ctx))
	}
	if err := p.fill(c, t); err != nil {
		return p.refuse(err)
	}
	c.accepted = p.now()
	p.mu.Lock()
	if err := p.admissible(c); err != nil {
		p.counters.refused++
		p.mu.Unlock()
		return err
	}
	p.counters.accepted++
	if p.queue.n == 0 && p.config.shape == nil && !p.full() {
		if to := p.pick(c.alone()); to != nil {
			w.admit()
			p.handOver(to, c, spinOn)
			return nil
		}
	}
	dropped, err := p.line(c, w)
	var to *worker
	if p.config.shape != nil {
		to = p.serveDue(c.accepted)
	}
	p.mu.Unlock()
	if to != nil {
		to.driver.send()
	}
	if dropped != nil {
		p.deliver(dropped)
	}
	return err
}

// handOver gives c to w and writes it, unless another goroutine is about to write.
// Pool.mu is held on entry; handOver unlocks it.
func (p *Pool) handOver(w *worker, c *call, spinOn **stream) {
	p.give(w, c, c.accepted)
	mine := p.claim(w)
	busy := w.count > 1 || w.lately > 1
	if spinOn != nil && mine && !busy && p.worthSpinning(w) {
		*spinOn = w.spins
	}
	p.mu.Unlock()
	if mine {
		if busy {
			runtime.Gosched() // callers are about to submit: their tasks go with the same write
		}
		w.driver.send()
	}
}

// line puts c into the queue, or applies the overflow rule. It returns the task that
// was dropped, if any, which the caller must deliver. Pool.mu is held.
func (p *Pool) line(c *call, w *waiter) (dropped *call, err error) {
	switch {
	case !p.full():
	case p.config.Overflow == Block:
		if w == nil {
			w = &waiter{}
		}
		p.blocked.push(w, c)
		p.admit() // an outcome may have been delivered since full was checked
		return nil, nil
	case p.config.Overflow == Reject:
		p.counters.accepted--
		p.counters.refused++
		return nil, fmt.Errorf("%w: %d tasks are already waiting", bullpen.ErrOverloaded, p.config.Queue)
	case p.queue.n > 0: // DropOldest; if n is 0, undelivered outcomes fill the queue
		dropped = p.queue.first
		p.queue.remove(dropped)
		p.end(dropped, bullpen.Result{}, fmt.Errorf("%w: a newer task took its place in the queue", bullpen.ErrOverloaded))
	}
	w.admit()
	p.enqueue(c)
	return dropped, nil
}

func (p *Pool) refuse(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counters.refused++
	return err
}

// enqueue appends c to the queue. Pool.mu is held.
func (p *Pool) enqueue(c *call) {
	p.queue.pushBack(c)
	switch {
	case len(p.workers) == 0:
		p.wakeBy(0)
	case !p.due(c.accepted):
		p.wakeBy(p.waitsSince())
	default:
		p.crowded = true
		p.wakeBy(c.accepted + int64(growWait))
	}
}

// MetaRedelivered is the key of a task's Meta that package queue sets if an earlier attempt
// was cut off. Such a task runs alone in its worker, as it may have been blamed for what
// another task did, or may do harm again.
const MetaRedelivered = "bullpen.redelivered"

// fill initializes c with t and the limits that apply to it.
func (p *Pool) fill(c *call, t bullpen.Task) error {
	c.task = t
	c.timeout, c.output = p.config.Limits.Timeout, p.config.Limits.Output
	c.memory, c.cpu = p.config.Limits.Memory, p.config.Limits.CPU
	if l := t.Limits; l != (bullpen.Limits{}) {
		if err := p.limit(c, l); err != nil {
			return err
		}
	}
	if len(t.Meta) > 0 {
		c.redelivered = t.Meta[MetaRedelivered] != ""
		if err := checkMeta(t.Meta); err != nil {
			return err
		}
	}
	if p.config.shape != nil {
		return p.itemize(c)
	}
	return nil
}

func (p *Pool) limit(c *call, l bullpen.Limits) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
	}
	if err := p.bound(c, l); err != nil {
		return err
	}
	if l.Timeout > 0 {
		c.timeout = l.Timeout
	}
	if l.Output > 0 {
		c.output = min(l.Output, p.config.Limits.Output)
	}
	return nil
}

func checkMeta(meta map[string]string) error {
	if len(meta) > protocol.MaxPairs-8 {
		return fmt.Errorf("%w: Meta has %d entries; the maximum is %d", bullpen.ErrRefused, len(meta), protocol.MaxPairs-8)
	}
	for key := range meta {
		if err := protocol.CheckPair(key); err != nil {
			return fmt.Errorf("%w: Meta: %w", bullpen.ErrRefused, err)
		}
	}
	return nil
}

// admissible returns an error if c cannot be accepted now. Pool.mu is held.
func (p *Pool) admissible(c *call) error {
	if p.state.State() != Open {
		return bullpen.ErrClosed
	}
	if p.failures >= breakAfter && len(p.workers) == 0 && p.now() < p.nextStart {
		return p.startErr
	}
	return p.check(c)
}

// check returns an error if, as far as is known, no worker could accept c. Pool.mu is
// held.
func (p *Pool) check(c *call) error {
	if p.config.traits.check == nil {
		return nil
	}
	return p.config.traits.check(p, c)
}

// cancel ends c early because of cause. A waiting task ends now; one that is assigned
// to a worker is recalled or asked to end.
func (p *Pool) cancel(c *call, cause error) {
	p.mu.Lock()
	ended := p.cancelLocked(c, cause)
	p.mu.Unlock()
	if ended {
		p.deliver(c)
	}
}

// cancelLocked is cancel with Pool.mu held. It reports whether the caller
// must deliver c.
func (p *Pool) cancelLocked(c *call, cause error) bool {
	switch c.state.State() {
	case taskWaiting:
		if c.in == &p.queue {
			p.queue.remove(c)
			p.admit()
			p.madeRoom()
		} else {
			p.blocked.remove(c)
		}
		return p.end(c, bullpen.Result{}, cause)
	case taskSent:
		if c.cause == nil {
			c.cause = cause
			p.attend(c.worker, p.now())
		}
	case taskEnded:
	}
	return false
}

// withdraw removes c, whose caller gave up, from the callers that wait for a place in
// the queue. It returns cause, or nil if c has been admitted.
func (p *Pool) withdraw(c *call, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.blocked.remove(c) {
		return nil
	}
	p.counters.accepted--
	p.counters.refused++
	return cause
}

// blockedCallers returns the number of callers that wait for a place in the queue.
// Pool.mu is held.
func (p *Pool) blockedCallers() int { return len(p.blocked.all) }

// full reports whether the queue has no place left. Outcomes that wait for a slow done
// function count too. Pool.mu is held.
func (p *Pool) full() bool { return p.queue.n+int(p.late.waiting.Load()) >= p.config.Queue }

// admit moves calls of waiting callers into the queue while it has places. Pool.mu is
// held.
func (p *Pool) admit() {
	for len(p.blocked.all) > 0 && !p.full() {
		c := p.blocked.pop()
		now := p.now()
		p.counters.blocked.Add(time.Duration(now - c.accepted))
		c.accepted = now
		p.enqueue(c)
	}
}
