package guard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errNoRoom says that a body found no room among all bodies.
var errNoRoom = errors.New("there is no room for the body now")

// budget bounds the bytes of all bodies together. A body takes room bit by bit,
// as it comes, so that who announces much and sends nothing holds nothing. The
// price is that many bodies can each hold a part and wait for the rest: the oldest
// goes first, and when nothing moves any more the youngest that holds something is
// refused.
type budget struct {
	size     int64
	patience time.Duration
	litter   *litter
	waits    atomic.Int32 // claims that wait, for those that want to know how tight it is

	mu      sync.Mutex
	free    int64    // guarded by mu
	idle    int64    // guarded by mu; what waiting holds have
	born    uint64   // guarded by mu
	waiting []*claim // guarded by mu, oldest hold first
}

// hold is what one body has of a budget. Its zero value has nothing.
type hold struct {
	bytes int64  // guarded by budget.mu
	age   uint64 // guarded by budget.mu; 0 before it has ever had something
	done  bool   // guarded by budget.mu
}

// claim is a hold that waits for more.
type claim struct {
	hold  *hold
	bytes int64
	ended chan error // has room for one
}

func newBudget(size int64, patience time.Duration) *budget {
	return &budget{size: size, patience: patience, litter: newLitter(size), free: size}
}

// take gives h more bytes, or an error when there are none in time.
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
	return <-c.ended // at once: whoever takes a claim out of the list answers it
}

// give gives back what h has; all says that h ends with it.
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

// settle gives what is free to those that wait, oldest first, and refuses one when
// all that hold something wait. The caller holds mu.
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

// end takes a claim out of the list and answers it. The caller holds mu.
func (b *budget) end(i int, err error) {
	c := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.idle -= c.hold.bytes
	b.waits.Add(-1)
	c.ended <- err
}
