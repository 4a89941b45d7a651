package process

import (
	"slices"
	"sync/atomic"
)

// waiter is one caller that waits for places in a full queue, with the calls that have
// none yet.
type waiter struct {
	calls    list
	admitted chan struct{} // closed when calls is empty; nil if no goroutine waits for it
	since    int64
	done     bool
}

// admit signals that the waiter's last call has a place.
func (w *waiter) admit() {
	if w != nil && w.admitted != nil && !w.done {
		w.done = true
		close(w.admitted)
	}
}

// waiters are the callers that wait for places in a full queue, in order. Pool.mu
// guards them.
type waiters struct {
	all []*waiter
	n   atomic.Int32 // length of all, readable without Pool.mu
}

func (b *waiters) push(w *waiter, c *call) {
	w.calls.pushBack(c)
	w.since = c.accepted
	b.all = append(b.all, w)
	b.n.Add(1)
}

// remove removes c and reports whether it was waiting.
func (b *waiters) remove(c *call) bool {
	for i, w := range b.all {
		if c.in == &w.calls {
			w.calls.remove(c)
			if w.calls.n == 0 {
				b.drop(i)
			}
			return true
		}
	}
	return false
}

// drop removes the waiter at index i, which has no call left.
func (b *waiters) drop(i int) {
	w := b.all[i]
	b.all = slices.Delete(b.all, i, i+1)
	b.n.Add(-1)
	w.admit()
}

// pop removes and returns the call that has waited longest, or returns nil.
func (b *waiters) pop() *call {
	if len(b.all) == 0 {
		return nil
	}
	w := b.all[0]
	c := w.calls.first
	w.calls.remove(c)
	if w.calls.n == 0 {
		b.all[0] = nil
		b.all = b.all[1:]
		b.n.Add(-1)
		w.admit()
	}
	return c
}
