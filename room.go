package bullpen

import "sync/atomic"

// RoomNotifier is an [Executor] that also signals when it has room for another task.
// It serves callers that share the executor and hand over no more than Capacity says:
// they see the ends of their own tasks, but not those of other callers' tasks.
//
// An executor implements it with a [RoomSignal]; one that wraps another passes the
// method on with [Room]. Package executortest checks executors that have it.
type RoomNotifier interface {
	Executor
	// Room returns a channel that is closed as soon as Capacity is above 0, at once
	// where it already is, and when the executor begins to end. By then another caller
	// may have taken the room: ask Capacity again, and call Room again to wait again.
	// A channel that is no longer needed can be dropped. Nil, from an executor that
	// wraps another, means that the inner one is not a RoomNotifier.
	Room() <-chan struct{}
}

// Room returns e's Room channel, or nil where e has none. A caller that gets nil has
// to ask Capacity from time to time.
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
// Each step of the executor that may have made room, or that begins its end, calls
// Notify when it is done; HasWaiters reports whether that is worth a look. In this
// order no wake-up is lost: who waits takes the channel first and looks for room
// then, who makes room looks for waiters last.
//
// The zero value is ready. All methods are safe for concurrent use, take no lock,
// and cost one atomic load while nobody waits.
type RoomSignal struct {
	next atomic.Pointer[chan struct{}] // nil while nobody waits
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

// HasWaiters reports whether Next was called since the last Notify.
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
