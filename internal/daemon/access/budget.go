package access

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errNoRoom is the error of a body for which the budget had no room.
var errNoRoom = errors.New("there is no room for the body now")

// budget bounds the bytes of all bodies together. A body takes its share gradually,
// as data arrives, so that a client that announces much and sends nothing takes
// nothing. As a consequence, bodies can deadlock, each with a part and waiting for
// the rest. So the oldest is served first, and when all wait, the youngest one that
// holds a share is refused.
type budget struct {
	size     int64
	patience time.Duration
	litter   *litter
	waits    atomic.Int32 // number of waiting claims, to see how scarce room is

	mu      sync.Mutex
	free    int64    // guarded by mu
	idle    int64    // bytes held by waiting bodies; guarded by mu
	born    uint64   // guarded by mu
	waiting []*claim // guarded by mu, oldest hold first
}

// hold is the share of one body in a budget. The zero value holds nothing.
type hold struct {
	bytes int64  // guarded by budget.mu
	age   uint64 // 0 before the first share; guarded by budget.mu
	done  bool   // guarded by budget.mu
}

// claim is a hold that waits for more.
type claim struct {
	hold  *hold
	bytes int64
	ended chan error // capacity 1
}

func newBudget(size int64, patience time.Duration) *budget {
	return &budget{size: size, patience: patience, litter: newLitter(size), free: size}
}

// take adds bytes to h, or returns an error if there is no room in time.
func (b *budget) take(ctx context.Context, h *hold, bytes int64) error {
	b.mu.Lock()
	if h.done || h.bytes+bytes > b.size {
		b.mu.Unlock()
		return errNoRoom
	}
	if h.age == 0 {
		b.born++
		h.age = b.born
	}
	if len(b.waiting) == 0 && bytes <= b.free {
		b.free -= bytes
		h.bytes += bytes
		b.mu.Unlock()
		return nil
	}
	c := &claim{hold: h, bytes: bytes, ended: make(chan error, 1)}
	i, _ := slices.BinarySearchFunc(b.waiting, h.age, func(o *claim, age uint64) int {
		if o.hold.age < age {
			return -1
		}
		return 1
	})
	b.waiting = slices.Insert(b.waiting, i, c)
	b.idle += h.bytes
	b.waits.Add(1)
	b.settle()
	b.mu.Unlock()

	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	select {
	case err := <-c.ended:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.end(i, errNoRoom)
		b.settle()
	}
	return <-c.ended // immediate: whoever removes a claim from the list answers it
}

// give returns bytes of h; all means that h is finished.
func (b *budget) give(h *hold, bytes int64, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all {
		bytes, h.done = h.bytes, true
		b.litter.add(bytes)
	}
	if bytes == 0 {
		return
	}
	h.bytes -= bytes
	b.free += bytes
	if len(b.waiting) > 0 {
		b.settle()
	}
}

// settle gives free bytes to waiting claims, oldest first. If all bodies that hold
// bytes wait, it refuses one. mu is held.
func (b *budget) settle() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.free {
		c := b.waiting[0]
		b.end(0, nil)
		b.free -= c.bytes
		c.hold.bytes += c.bytes
	}
	if len(b.waiting) == 0 || b.idle == 0 || b.idle < b.size-b.free {
		return
	}
	for i, c := range slices.Backward(b.waiting) {
		if c.hold.bytes > 0 {
			b.end(i, errNoRoom)
			return
		}
	}
}

// end removes a claim from the list and answers it. mu is held.
func (b *budget) end(i int, err error) {
	c := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.idle -= c.hold.bytes
	b.waits.Add(-1)
	c.ended <- err
}
