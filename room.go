package bullpen

import "sync/atomic"

// RoomNotifier is an [Executor] that notifies callers when it can start another task. It is
// for callers that share the executor and submit no more than Capacity allows: they notice
// when their own tasks end, but not when those of other callers do.
//
// Executors implement it with a [RoomSignal]. An executor that wraps another one forwards
// the method with [Room]. Package executortest checks the implementation.
type RoomNotifier interface {
	Executor
	// Room returns a channel that is closed when Capacity is above 0, immediately if it
	// already is, and when the executor begins to shut down. Another caller may take the
	// capacity first: check Capacity again, and call Room again to wait again. A channel
	// that is no longer needed can be dropped. An executor that wraps another one returns
	// nil if the inner one is not a RoomNotifier.
	Room() <-chan struct{}
}

// Room returns e's Room channel, or nil if e has none. In that case the caller has to poll
// Capacity.
func Room(e Executor) <-chan struct{} {
	if n, ok := e.(RoomNotifier); ok {
		return n.Room()
	}
	return nil
}

// RoomSignal implements [RoomNotifier] for an executor, whose method Room is
//
//	c := signal.Next()
//	if there is room, or the end has begun {
//		signal.Notify()
//	}
//	return c
//
// Each step of the executor that may have freed capacity, or that begins the shutdown,
// calls Notify at its end; HasWaiters reports whether that is necessary. This order loses
// no wake-up: a waiter takes the channel before it checks the capacity, and the executor
// frees capacity before it checks for waiters.
//
// The zero value is ready to use. All methods are safe for concurrent use, take no lock,
// and cost one atomic load while no caller waits.
type RoomSignal struct {
	next atomic.Pointer[chan struct{}] // nil while no caller waits
}

// Next returns the channel that the next Notify closes.
func (s *RoomSignal) Next() <-chan struct{} {
	for {
		if c := s.next.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		if s.next.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

// HasWaiters reports whether Next was called after the last Notify.
func (s *RoomSignal) HasWaiters() bool { return s.next.Load() != nil }

// Notify closes the channel that Next has returned since the last Notify, if any.
func (s *RoomSignal) Notify() {
	if !s.HasWaiters() {
		return
	}
	if c := s.next.Swap(nil); c != nil {
		close(*c)
	}
}
