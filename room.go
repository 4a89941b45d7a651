package bullpen

import "sync/atomic"

// RoomTeller is what an [Executor] may be besides: one that says when there is
// room for another task, to callers that hand over no more than Capacity says. It
// is for those that share an executor: the end of a task of their own they see by
// themselves, that of somebody else's task only so.
//
// An executor gets it from a [RoomSignal]; one that wraps another passes the
// method on by [Room]. Package executortest checks it for executors that have it.
type RoomTeller interface {
	Executor
	// Room returns a channel that is closed as soon as Capacity is above 0, at once
	// where it is, and when the executor begins to end. Others may have taken the
	// room by then: ask Capacity again, and Room for the next time. A channel
	// that nobody looks at any more needs no care. Nil, for an executor that wraps
	// another, says that the inner one cannot tell.
	Room() <-chan struct{}
}

// Room is the method Room of e, and nil where e has none. A caller that gets nil
// has to ask Capacity from time to time.
func Room(e Executor) <-chan struct{} {
	if t, ok := e.(RoomTeller); ok {
		return t.Room()
	}
	return nil
}

// RoomSignal is how an executor keeps [RoomTeller]. Its method Room is
//
//	c := signal.Next()
//	if there is room, or the end has begun {
//		signal.Tell()
//	}
//	return c
//
// and each step of its own that may have made room, and that begins its end, calls
// Tell when it is done, where Awaited says so. In this order no wake-up is lost:
// those who wait take their channel first and look for room then, those who make
// room look for who waits last.
//
// The zero value is ready. All methods are safe for concurrent use, take no lock,
// and cost one atomic load while nobody waits.
type RoomSignal struct {
	next atomic.Pointer[chan struct{}] // nil while nobody waits
}

// Next returns the channel that the next Tell closes.
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

// Awaited reports whether somebody waits for Tell, or has waited since the last.
func (s *RoomSignal) Awaited() bool { return s.next.Load() != nil }

// Tell closes the channel that those have who wait.
func (s *RoomSignal) Tell() {
	if !s.Awaited() {
		return
	}
	if c := s.next.Swap(nil); c != nil {
		close(*c)
	}
}
