package executortest

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// testRoom waits for room in an executor that is full of tasks of other callers.
func testRoom(t *testing.T, f Factory) {
	f.roomOr(t)
	t.Run("Now", func(t *testing.T) {
		s := f.open(t, Options{})
		awaitRoom(t, "though the executor has just begun", bullpen.Room(s.Executor))
	})
	t.Run("WhenATaskEnds", f.testRoomMade)
	t.Run("NoneLost", f.testRoomNoneLost)
	t.Run("WhenTheExecutorEnds", f.testRoomAtTheEnd)
}

// roomOr returns the Room channel, and fails the test if the executor has none.
func (f Factory) roomOr(t *testing.T) {
	t.Helper()
	need(t, "Room", bullpen.Room(f.open(t, Options{}).Executor) != nil, "the executor does not report when it has room")
}

// awaitRoom waits until a Room channel is closed.
func awaitRoom(t *testing.T, when string, room <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
		t.Fatalf("the channel of Room is not closed %s", when)
	}
}

// crowd submits tasks until the executor has no room. They end when the gates open.
func (s *subject) crowd(workers int) (gates []*gate) {
	s.t.Helper()
	for len(gates) < workers || s.Capacity() > 0 {
		if len(gates) > 4*workers {
			s.t.Fatalf("Capacity is %d with %d tasks at %d workers", s.Capacity(), len(gates), workers)
		}
		g := s.gate()
		s.give(s.t.Context(), g.task())
		if gates = append(gates, g); len(gates) <= workers {
			g.awaitStart()
		}
	}
	return gates
}

// stays checks that a Room channel stays open while nothing happens.
func (s *subject) stays() bool {
	room := bullpen.Room(s.Executor)
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-room:
		return false
	case <-timer.C:
		return true
	}
}

func (f Factory) testRoomMade(t *testing.T) {
	f.needQueue(t)
	const workers, listeners = 2, 3
	s := f.open(t, Options{Workers: workers})
	gates := s.crowd(workers)
	eventually(t, "the channel of Room stays open while the executor is full", s.stays)
	var rooms []<-chan struct{}
	for range listeners {
		rooms = append(rooms, bullpen.Room(s.Executor))
	}
	for _, g := range gates {
		g.open()
	}
	for _, room := range rooms {
		awaitRoom(t, "for each of those who wait, though tasks have ended", room)
	}
	eventually(t, "Capacity is above 0 when all tasks have ended", func() bool { return s.Capacity() > 0 })
	awaitRoom(t, "though all tasks have ended", bullpen.Room(s.Executor))
}

// testRoomNoneLost calls Room at the moments when tasks end.
func (f Factory) testRoomNoneLost(t *testing.T) {
	const workers, rounds = 2, 100
	s := f.open(t, Options{Workers: workers})
	for range rounds {
		for range 2 * workers {
			s.give(t.Context(), task("upper", "x"))
		}
		awaitRoom(t, "though all tasks end at once", bullpen.Room(s.Executor))
	}
}

func (f Factory) testRoomAtTheEnd(t *testing.T) {
	f.needQueue(t)
	const workers = 1
	s := f.open(t, Options{Workers: workers})
	gates := s.crowd(workers)
	eventually(t, "the channel of Room stays open while the executor is full", s.stays)
	room := bullpen.Room(s.Executor)
	ended := make(chan error, 1)
	go func() { ended <- s.Drain(t.Context()) }() // ends when the gates open; the test waits for it
	awaitRoom(t, "when the executor begins to end", room)
	for _, g := range gates {
		g.open()
	}
	if err := within(t, "Drain", func() error { return <-ended }); err != nil {
		t.Error(err)
	}
	awaitRoom(t, "after the executor has ended", bullpen.Room(s.Executor))
}
