package pool

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Started: a worker goroutine was started.
	Started EventKind = iota + 1
	// Stopped: it has ended.
	Stopped
	// KeptAlive: workers have idled for the idle timeout and stay because of
	// Min; Count says how many there are. Once per timeout.
	KeptAlive
	// Panicked: a task left by a panic or by runtime.Goexit; its worker goes on.
	Panicked
	// Overran: a task was answered at its deadline, or after the grace of its
	// cancellation, while its body goes on.
	Overran
	// Returned: the body of such a task has returned; what it gave is dropped.
	Returned
	// Overloaded: a task found the queue full and was refused, or took the
	// place of an older one. Once per second at most.
	Overloaded
	// Dropped: the end of the pool has failed the tasks that waited; Count says
	// how many.
	Dropped
	// Changed: the pool moved to another state.
	Changed
)

var eventNames = [...]string{
	Started: "started", Stopped: "stopped", KeptAlive: "kept alive", Panicked: "panicked", Overran: "overran",
	Returned: "returned late", Overloaded: "overloaded", Dropped: "dropped", Changed: "pool changed state",
}

// String returns the words for k.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is one thing that happened in a pool.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Worker string // name, empty where the event is of the pool
	Task   string // name of the task, empty where there is none
	Count  int    // of KeptAlive and Dropped
	// Text says more, for people: error, new state.
	Text string
	// Stack is where a task panicked.
	Stack string
}

// String gives the event on one line, without its time and stack.
func (e Event) String() string {
	s := e.Kind.String()
	if e.Worker != "" {
		s = e.Worker + " " + s
	}
	if e.Count != 0 {
		s += fmt.Sprintf(" %d", e.Count)
	}
	if e.Task != "" {
		s += fmt.Sprintf(" task %q", e.Task)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// level is that of the line in the log: workers come and go all the time.
func (e Event) level() slog.Level {
	switch e.Kind {
	case Panicked, Overran, Overloaded, Dropped:
		return slog.LevelWarn
	case Returned, Changed:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Feed is a subscription to a pool's events. A reader that is slower than the
// pool loses events, never slows it. Its methods are safe for concurrent use.
type Feed struct {
	// C gives the events; it is closed by Close and when the pool has ended.
	C       <-chan Event
	c       chan Event
	journal *journal
	dropped atomic.Uint64
}

// Events subscribes to what happens from now on; the start of the Min workers
// is over by then, which [Pool.Stats] tells. buffer is the number of events held
// for a reader that is late; 0 means 256. On a pool that has ended C is closed
// at once.
func (p *Pool) Events(buffer int) *Feed { return p.journal.subscribe(buffer) }

// Dropped returns the number of events that were lost because the buffer was
// full.
func (f *Feed) Dropped() uint64 { return f.dropped.Load() }

// Close ends the subscription. It may be called again, and at any time.
func (f *Feed) Close() { f.journal.unsubscribe(f) }
