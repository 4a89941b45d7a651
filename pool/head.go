package pool

import (
	"sync"
	"sync/atomic"
)

// A task with a result has one word of state, moved by compare-and-swap over
// the moves of taskStates:
//
//	bits 0-2  its TaskState
//	bit 3     the queue still holds it, so that the object may not be used again
//	bit 4     a caller waits for the token; only that caller clears it, so that
//	          until then the object is not used again
//	bit 5     somebody may read its result later: it is never used again
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

// head is the part of a task that does not depend on its types.
type head struct {
	word  atomic.Uint64
	token atomic.Pointer[token] // made at the first wait, stays with the object
	crowd atomic.Pointer[crowd]
	place *placement
	queue *queue       // where it waits
	own   *taskContext // nil where the worker's context serves
	self  owner
}

// owner is the whole task that a head is part of.
type owner interface {
	item
	// execute runs the body; the task is running.
	execute(w *worker)
	// settle writes the outcome of a task that is ending, without publishing it.
	settle(err error)
	// reuse gives the object back. Nobody else holds it.
	reuse()
}

// token wakes the one caller that waits for a task without a crowd.
type token struct{ c chan struct{} }

// crowd has those who wait for a task besides one caller.
type crowd struct {
	mu    sync.Mutex
	over  bool          // guarded by mu
	done  chan struct{} // guarded by mu until it is given out
	calls []func()      // guarded by mu
	// member is told besides, if it is there from the beginning.
	member interface{ ended() }
}

// submitted makes a filled task one that waits.
func (h *head) submitted() {
	h.word.Store(h.word.Load()&^(generation-1) | inQueue | uint64(TaskQueued))
}

// withdrawn undoes submitted for a task that was not accepted.
func (h *head) withdrawn() {
	h.word.Store(h.word.Load() &^ (generation - 1))
}

// step moves the task from one state to another if it is of generation gen, and
// sets flags with it.
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

// begin starts a task that a worker has taken from the queue. When it has ended
// meanwhile the object is let go.
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

// letGo says that the queue holds the task no more.
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

// revoke ends a task that waits; one that has started or ended it leaves alone.
func (h *head) revoke(gen uint64, err error) {
	if q := h.drop(gen, err); q != nil && !h.place.pool.undelay(h, gen) {
		q.forget()
	}
}

// dropped ends a task that was taken out of the queue and not started. err nil
// says that it is stale.
func (h *head) dropped(err error) {
	if err != nil && h.drop(genOf(h.word.Load()), err) == nil {
		h.queue.unforget()
	}
	h.letGo()
}

// drop ends a task that waits, and gives the queue where it did; nil when it has
// started or ended.
func (h *head) drop(gen uint64, err error) *queue {
	p := h.place.pool
	p.guests.Add(1) // the pool has not ended before its callers are told
	defer p.farewell()
	if !h.step(gen, TaskQueued, TaskEnding, 0) {
		return nil
	}
	q := h.queue // the task is ours until it is published
	h.place.kind.neverStarted()
	h.self.settle(err)
	h.publish(gen, TaskEnding)
	return q
}

// publish shows the outcome, which was written before, to all who wait for it. It
// is the only place that makes a task done. It returns false when the task was
// answered before. Behind the step the object may be another task's, unless
// somebody waits or it is kept.
func (h *head) publish(gen uint64, from TaskState) (ok, waited bool) {
	for {
		word := h.word.Load()
		if genOf(word) != gen || stateOf(word) != from {
			return false, false
		}
		if h.word.CompareAndSwap(word, word&^stateBits|uint64(TaskDone)) {
			return true, word&(hasWaiter|isKept) != 0 && h.tellAll(word)
		}
	}
}

// abandon answers a running task while its body goes on. Its outcome is the verdict
// in its context: the body will write where the result would be.
func (h *head) abandon(gen uint64) bool { return h.step(gen, TaskRunning, TaskLost, isKept) }

// tell wakes those who wait for an abandoned task.
func (h *head) tell() { h.tellAll(h.word.Load()) }

func (h *head) tellAll(word uint64) (waited bool) {
	if word&hasWaiter != 0 {
		h.wake()
		waited = true
	}
	if word&isKept != 0 {
		waited = h.dismissCrowd() || waited
	}
	return waited
}

// wake gives the token to who waits. Where there is one that he has not taken, that will
// do: he looks at the state when he has. To wait for him would be wrong, for this may be
// he himself, told that his context has ended, with a poke in between.
func (h *head) wake() {
	select {
	case h.token.Load().c <- struct{}{}:
	default:
	}
}

// over reports whether a task in this state has its outcome.
func (s TaskState) over() bool { return s == TaskDone || s == TaskLost }

// dismissCrowd tells all who joined the crowd.
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

// keep sees to it that the object is not used again; false when it already was.
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

// join gives the crowd of a kept task.
func (h *head) join() *crowd {
	if c := h.crowd.Load(); c != nil {
		return c
	}
	h.crowd.CompareAndSwap(nil, &crowd{})
	return h.crowd.Load()
}

// ended is a channel that is closed when the kept task is done. Who joins first
// and looks at the state then misses nothing: publish moves the state first and
// looks for the crowd then.
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

// then lets call be called once the kept task is done, perhaps at once.
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
