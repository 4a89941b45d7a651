package pool

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Started: a worker goroutine started.
	Started EventKind = iota + 1
	// Stopped: a worker goroutine has ended.
	Stopped
	// KeptAlive: workers were idle for the idle timeout and are kept because of Min; Count
	// is the number of workers. At most one event per timeout.
	KeptAlive
	// Panicked: a task panicked or called runtime.Goexit; its worker goes on.
	Panicked
	// Overran: a task got its outcome at its timeout, or after the grace of its
	// cancellation, while its body keeps running.
	Overran
	// Returned: the body of such a task has returned; its result is dropped.
	Returned
	// Overloaded: a task found the queue full, and was refused or displaced an older task.
	// At most one event per second.
	Overloaded
	// Dropped: the shutdown of the pool failed the waiting tasks; Count is their number.
	Dropped
	// Changed: the pool moved to another state.
	Changed
)

var eventNames = [...]string{
	Started: "started", Stopped: "stopped", KeptAlive: "kept alive", Panicked: "panicked", Overran: "overran",
	Returned: "returned late", Overloaded: "overloaded", Dropped: "dropped", Changed: "pool changed state",
}

// String returns the name of k.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is an event of a pool.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Worker string // name, empty for events of the pool
	Task   string // name of the task, empty if there is none
	Count  int    // of KeptAlive and Dropped
	// Text has details for people: an error or the new state.
	Text string
	// Stack is the stack of a task that panicked.
	Stack string
}

// String returns the event on one line, without its time and stack.
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

// level returns the log level. Starts and stops of workers are frequent, so they are debug
// events.
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

// Feed is a subscription to a pool's events. A slow reader loses events; it does not slow
// the pool. The methods are safe for concurrent use.
type Feed struct {
	// C delivers the events. It is closed by Close and when the pool has ended.
	C    <-chan Event
	feed *feed.Feed[Event]
}

// Events subscribes to the events from now on. The Min workers have started before, see
// [Pool.Stats]. buffer is the number of events held for a slow reader; 0 means 256. If the
// pool has ended, C is closed immediately.
func (p *Pool) Events(buffer int) *Feed {
	f := p.journal.Feed(buffer)
	return &Feed{C: f.C, feed: f}
}

// Dropped returns the number of events lost because the buffer was full.
func (f *Feed) Dropped() uint64 { return f.feed.Dropped() }

// Close ends the subscription. It may be called repeatedly and at any time.
func (f *Feed) Close() { f.feed.Close() }
