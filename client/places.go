package client

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// admit accepts a task. If has is true the task has a place and the caller must run
// it; otherwise it waits for a place.
func (e *Executor) admit(r *run) (has bool, err error) {
	e.mu.Lock()
	if e.state.State() != executorOpen {
		e.mu.Unlock()
		return false, bullpen.ErrClosed
	}
	nested := r.parent != "" && (e.hand[r.parent] != nil || e.hand[r.parentKey] != nil)
	switch {
	case e.active < e.config.Inflight || nested && e.active < 2*e.config.Inflight:
		e.place(r)
		r.watch(e)
		e.mu.Unlock()
		return true, nil
	case nested:
		e.mu.Unlock()
		return false, fmt.Errorf("%w: %w: %s already has Inflight tasks at the daemon; raise Inflight, or do not wait in a task for another task of its own pool",
			bullpen.ErrOverloaded, ErrNested, e.pool)
	case e.waiting.Len() < e.config.Queue:
		e.wait(r)
		r.watch(e)
		e.mu.Unlock()
		return false, nil
	}
	return e.overflow(r)
}

// findParent looks up the key of r's parent job, because this executor knows the jobs
// that it has in hand by key. Only a full executor needs it. A job that cannot be
// looked up counts as not this executor's.
func (e *Executor) findParent(r *run) {
	if r.parent == "" || !e.config.Durable {
		return
	}
	e.mu.Lock()
	full := e.active >= e.config.Inflight
	e.mu.Unlock()
	if !full {
		return
	}
	if info, err := e.client.Get(r.ctx, r.parent); err == nil {
		r.parentKey = info.Key
	}
}

// overflow applies the overflow rule to a task. It is called with mu held, and
// unlocks it.
func (e *Executor) overflow(r *run) (has bool, err error) {
	oldest := e.waiting.Front()
	switch {
	case e.config.Overflow == Block:
		r.admitted = make(chan struct{})
		r.element = e.blocked.PushBack(r)
		e.mu.Unlock()
		return false, e.awaitPlace(r)
	case e.config.Overflow == Reject || oldest == nil:
		e.mu.Unlock()
		return false, fmt.Errorf("%w: %d tasks are at the daemon and %d wait", bullpen.ErrOverloaded, e.config.Inflight, max(0, e.config.Queue))
	}
	dropped := oldest.Value.(*run)
	e.unlist(dropped)
	e.telling++
	e.wait(r)
	r.watch(e)
	e.mu.Unlock()
	e.fail(dropped, fmt.Errorf("%w: a newer task took its place", bullpen.ErrOverloaded))
	return false, nil
}

// awaitPlace waits until the task is accepted or refused, or its context ends.
func (e *Executor) awaitPlace(r *run) error {
	select {
	case <-r.admitted:
		return r.refusal
	case <-r.ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.element == nil || r.state.State() != runNew { // accepted or refused meanwhile
		return r.refusal
	}
	e.blocked.Remove(r.element)
	r.element = nil
	return context.Cause(r.ctx)
}

// place gives a task one of the places at the daemon. e.mu is held.
func (e *Executor) place(r *run) {
	e.active++
	e.hand[r.id] = r
	e.move(r, runHanded)
}

// wait appends a task to the queue. e.mu is held.
func (e *Executor) wait(r *run) {
	e.move(r, runWaiting)
	r.element = e.waiting.PushBack(r)
}

// unlist removes a task from the queue, and admits one whose Submit is blocked.
// e.mu is held.
func (e *Executor) unlist(r *run) {
	e.waiting.Remove(r.element)
	r.element = nil
	for e.waiting.Len() < e.config.Queue && e.blocked.Len() > 0 {
		next := e.unblock()
		e.wait(next)
		next.watch(e)
		close(next.admitted)
	}
}

// unblock removes and returns the first task whose Submit is blocked. e.mu is held.
func (e *Executor) unblock() *run {
	first := e.blocked.Front()
	r := e.blocked.Remove(first).(*run)
	r.element = nil
	return r
}

// release passes the place of an ended task to the next one and returns that; nil for
// none.
func (e *Executor) release(r *run) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.hand, r.id)
	e.active--
	next := e.next()
	if next != nil {
		e.place(next)
	} else if e.active < e.config.Inflight {
		e.room.Notify()
	}
	e.checkIdle()
	return next
}

// next removes and returns the task that gets a free place; nil for none. e.mu is held.
func (e *Executor) next() *run {
	if e.active >= e.config.Inflight {
		return nil // the place was in excess of Inflight, for a task submitted by a task
	}
	if first := e.waiting.Front(); first != nil {
		r := first.Value.(*run)
		e.unlist(r)
		return r
	}
	if e.blocked.Len() > 0 { // the queue has no room at all (Queue is -1)
		r := e.unblock()
		r.watch(e)
		close(r.admitted)
		return r
	}
	return nil
}

// checkIdle closes the executor when it is shutting down and no task is left. e.mu is held.
func (e *Executor) checkIdle() {
	if s := e.state.State(); s == executorOpen || s == executorClosed || e.active+e.telling+e.waiting.Len() > 0 {
		return
	}
	if _, err := e.state.MoveAny(executorClosed); err == nil {
		close(e.idle)
	}
}

// fail ends a waiting task as never started and calls its callback. The caller has
// removed the task from the queue and counted it in e.telling.
func (e *Executor) fail(r *run, err error) {
	if r.unwatch != nil {
		r.unwatch()
	}
	e.move(r, runEnded)
	r.done(bullpen.Result{}, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.telling--
	e.checkIdle()
}

// takeBack ends a task whose context has ended: at once if it waits, otherwise by a
// call to the daemon.
func (e *Executor) takeBack(r *run) {
	e.mu.Lock()
	waits := r.state.State() == runWaiting && r.element != nil
	if waits {
		e.unlist(r)
		e.telling++
	}
	e.mu.Unlock()
	if waits {
		e.fail(r, context.Cause(r.ctx))
		return
	}
	r.withdraw(context.Cause(r.ctx))
}
