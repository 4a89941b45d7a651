package pool

import (
	"sync"
	"sync/atomic"
)

// A task with a result keeps its state in one word, which changes by compare-and-swap as
// taskStates allows:
//
//	bits 0-2  its TaskState
//	bit 3     the queue still holds the task, so the object must not be reused
//	bit 4     a caller waits for the token; only that caller clears the bit, and
//	          until then the object must not be reused
//	bit 5     the result may be read later, so the object is never reused
//	bits 8-63 the generation: how often the object was used before
const (
	stateBits  = 7
	inQueue    = 1 << 3
	hasWaiter  = 1 << 4
	isKept     = 1 << 5
	generation = 1 << 8
)

func stateOf(word uint64) TaskState { return TaskState(word & stateBits) }
func genOf(word uint64) uint64      { return word / generation }

// head is the part of a task that does not depend on its type parameters.
type head struct {
	word   atomic.Uint64
	token  atomic.Pointer[token] // made at the first wait, kept with the object
	crowd  atomic.Pointer[crowd]
	target *target
	queue  *queue       // where it waits
	own    *taskContext // nil if the worker's context is used
	self   owner
}

// owner is the complete task that contains a head.
type owner interface {
	item
	// execute runs the body of a running task.
	execute(w *worker)
	// settle stores the outcome of a task that is ending, without publishing it.
	settle(err error)
	// reuse releases the object. No other goroutine references it.
	reuse()
}

// token wakes the caller that waits for a task without joining the crowd.
type token struct{ c chan struct{} }

// crowd holds the other callers that wait for a task.
type crowd struct {
	mu    sync.Mutex
	over  bool          // guarded by mu
	done  chan struct{} // guarded by mu until it is returned
	calls []func()      // guarded by mu
	// member is notified too; it is set before the task is submitted.
	member interface{ ended() }
}

// submitted marks a filled task as queued.
func (h *head) submitted() {
	h.word.Store(h.word.Load()&^(generation-1) | inQueue | uint64(TaskQueued))
}

// withdrawn undoes submitted for a task that was not accepted.
func (h *head) withdrawn() {
	h.word.Store(h.word.Load() &^ (generation - 1))
}

// step moves the task from one state to another and sets flags, if it has generation gen.
func (h *head) step(gen uint64, from, to TaskState, flags uint64) bool {
	for {
		word := h.word.Load()
		if genOf(word) != gen || stateOf(word) != from {
			return false
		}
		if h.word.CompareAndSwap(word, word&^stateBits|uint64(to)|flags) {
			return true
		}
	}
}

// begin starts a task that a worker has taken from the queue. If the task has ended in the
// meantime, begin releases it.
func (h *head) begin() bool {
	for {
		word := h.word.Load()
		if stateOf(word) != TaskQueued {
			h.queue.unforget()
			h.letGo()
			return false
		}
		if h.word.CompareAndSwap(word, word&^(stateBits|inQueue)|uint64(TaskRunning)) {
			return true
		}
	}
}

// letGo records that the queue no longer holds the task.
func (h *head) letGo() {
	for {
		word := h.word.Load()
		if h.word.CompareAndSwap(word, word&^inQueue) {
			if stateOf(word) == TaskFree {
				h.self.reuse() // it was released before
			}
			return
		}
	}
}

// revoke ends a waiting task. It does nothing if the task has started or ended.
func (h *head) revoke(gen uint64, err error) {
	if q := h.drop(gen, err); q != nil && !h.target.pool.undelay(h, gen) {
		q.forget()
	}
}

// dropped ends a task that was taken from the queue but not started. A nil err means that
// the task is stale.
func (h *head) dropped(err error) {
	if err != nil && h.drop(genOf(h.word.Load()), err) == nil {
		h.queue.unforget()
	}
	h.letGo()
}

// drop ends a waiting task and returns its queue, or nil if it has started or ended.
func (h *head) drop(gen uint64, err error) *queue {
	p := h.target.pool
	p.guests.Add(1) // keeps the pool from ending before the callers are answered
	defer p.farewell()
	if !h.step(gen, TaskQueued, TaskEnding, 0) {
		return nil
	}
	q := h.queue // the task belongs to this goroutine until it is published
	h.target.kind.neverStarted()
	h.self.settle(err)
	h.publish(gen, TaskEnding)
	return q
}

// publish publishes the outcome, which was stored before, and wakes the waiters. No other
// function makes a task done. It returns false if the task was answered before. After its
// step the object may be reused for another task, unless a caller waits or the object is
// kept.
func (h *head) publish(gen uint64, from TaskState) (ok, waited bool) {
	for {
		word := h.word.Load()
		if genOf(word) != gen || stateOf(word) != from {
			return false, false
		}
		if h.word.CompareAndSwap(word, word&^stateBits|uint64(TaskDone)) {
			return true, word&(hasWaiter|isKept) != 0 && h.wakeAll(word)
		}
	}
}

// abandon answers a running task while its body keeps running. Its outcome is the verdict in its
// context, because the body may still write to the result.
func (h *head) abandon(gen uint64) bool { return h.step(gen, TaskRunning, TaskLost, isKept) }

// wakeWaiters wakes the callers that wait for an abandoned task.
func (h *head) wakeWaiters() { h.wakeAll(h.word.Load()) }

func (h *head) wakeAll(word uint64) (waited bool) {
	if word&hasWaiter != 0 {
		h.wake()
		waited = true
	}
	if word&isKept != 0 {
		waited = h.dismissCrowd() || waited
	}
	return waited
}

// wake gives the token to the waiting caller. If a token is already there, that suffices:
// the caller checks the state after taking it. wake must not block, because it may run in
// the waiting caller itself, after a poke, when the caller's context has ended.
func (h *head) wake() {
	select {
	case h.token.Load().c <- struct{}{}:
	default:
	}
}

// over reports whether a task in this state has its outcome.
func (s TaskState) over() bool { return s == TaskDone || s == TaskLost }

// dismissCrowd wakes the crowd.
func (h *head) dismissCrowd() bool {
	c := h.crowd.Load()
	if c == nil {
		return false
	}
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	if !c.over && c.done != nil {
		close(c.done)
	}
	c.over = true
	c.mu.Unlock()
	for _, call := range calls {
		call()
	}
	if c.member != nil {
		c.member.ended()
	}
	return true
}

// keep prevents the reuse of the object. It returns false if it was already reused.
func (h *head) keep(gen uint64) bool {
	for {
		word := h.word.Load()
		if genOf(word) != gen {
			return false
		}
		if word&isKept != 0 || h.word.CompareAndSwap(word, word|isKept) {
			return true
		}
	}
}

// join returns the crowd of a kept task, and creates it if necessary.
func (h *head) join() *crowd {
	if c := h.crowd.Load(); c != nil {
		return c
	}
	h.crowd.CompareAndSwap(nil, &crowd{})
	return h.crowd.Load()
}

// ended returns a channel that is closed when the kept task is done. It joins the crowd
// before it checks the state, and publish sets the state before it looks for the crowd, so
// no wake-up is lost.
func (h *head) ended() <-chan struct{} {
	c := h.join()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over {
			close(c.done)
		}
	}
	if !c.over && stateOf(h.word.Load()).over() {
		c.over = true
		close(c.done)
	}
	return c.done
}

// then calls call when the kept task is done, perhaps immediately.
func (h *head) then(call func()) {
	c := h.join()
	c.mu.Lock()
	if !c.over && !stateOf(h.word.Load()).over() {
		c.calls = append(c.calls, call)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	call()
}
