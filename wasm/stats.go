package wasm

import (
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/internal/wasmcode"
)

// counters are those of a pool. Pool.mu guards them.
type counters struct {
	started    uint64
	refused    uint64
	overloaded uint64
	never      uint64 // accepted, and never started
	dropped    uint64 // of those, by the end of the pool
	aborted    uint64 // started, and ended by the end of the pool
	faults     uint64 // refused moves of a state
	outcomes   [bullpen.OutcomeCount]uint64
}

// Stats is a snapshot of a pool.
type Stats struct {
	Name  string
	State State
	// ABI is how the module is called, and Mode what happens to an instance between two
	// tasks: it is Fresh although Config.Mode is Restore if the module cannot be restored.
	ABI  ABI
	Mode Mode
	// Running counts the tasks that run, Idle the instances that wait for one, Queued the
	// tasks that wait, and Blocked the callers that wait for a place in the queue.
	Running, Idle, Queued, Blocked int
	// Max is the most tasks that run at a time, Queue the most that wait.
	Max, Queue int
	// Outcomes counts the tasks that started, by their outcome, NeverStarted the accepted
	// ones that did not, and Refused those that were not accepted.
	Outcomes     [bullpen.OutcomeCount]uint64
	NeverStarted uint64
	Refused      uint64
	// Instantiated, Discarded and Restored count what was done with instances.
	Instantiated, Discarded, Restored uint64
	// Checks estimates the work of the guests: the checks, of function entries and loop
	// iterations, that discarded instances have passed. A simple loop passes some 10⁹ per
	// second.
	Checks uint64
	// Lost counts the lines that the logger was too slow for.
	Lost uint64
	// Wait and Run are the times that tasks waited and ran.
	Wait, Run bullpen.Histogram
}

// Stats returns a snapshot. It waits for no task.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	s := Stats{
		Running: p.running.n, Idle: len(p.idle), Queued: p.queue.n, Blocked: p.blocked.n,
		Outcomes: p.counters.outcomes, NeverStarted: p.counters.never, Refused: p.counters.refused,
	}
	p.mu.Unlock()
	s.Name, s.State = p.config.Name, p.State()
	s.ABI, s.Mode = p.module.abi, p.module.mode
	s.Max, s.Queue = p.config.Max, p.config.Queue
	s.Instantiated, s.Discarded, s.Restored = p.instantiated.Load(), p.discarded.Load(), p.restored.Load()
	s.Checks = p.ticks.Load() * wasmcode.Period
	s.Lost = p.log.Lost()
	s.Wait, s.Run = p.waits.Snapshot(), p.runs.Snapshot()
	return s
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Changed: the pool moved to another state.
	Changed EventKind = iota + 1
	// Stopped: a task was stopped, and its instance discarded.
	Stopped
	// Trapped: a guest trapped, and its instance was discarded.
	Trapped
	// Fault: the pool has found a fault in itself.
	Fault
)

var eventNames = [...]string{Changed: "pool changed state", Stopped: "stopped", Trapped: "trapped", Fault: "fault"}

// String returns the name of k.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is an event of a pool.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Instance string // name, empty for events of the pool
	Task     string // name of the task, empty if there is none
	Text     string // details for people
}

// String returns the event on one line, without its time.
func (e Event) String() string {
	s := e.Kind.String()
	if e.Instance != "" {
		s = e.Instance + " " + s
	}
	if e.Task != "" {
		s += fmt.Sprintf(" task %q", e.Task)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// emit sends an event to all readers. It never blocks.
func (p *Pool) emit(e Event) {
	if p.events.Heard() {
		e.Time = time.Now()
		p.events.Send(e)
	}
}

// Feed is a subscription to a pool's events. A slow reader loses events; it does not slow
// the pool. The methods are safe for concurrent use.
type Feed struct {
	// C delivers the events. It is closed by Close and when the pool has ended.
	C    <-chan Event
	feed *feed.Feed[Event]
}

// Events subscribes to the events from now on. buffer is the number of events held for a
// slow reader; 0 means 256. If the pool has ended, C is closed immediately.
func (p *Pool) Events(buffer int) *Feed {
	f := p.events.Feed(buffer)
	return &Feed{C: f.C, feed: f}
}

// Dropped returns the number of events lost because the buffer was full.
func (f *Feed) Dropped() uint64 { return f.feed.Dropped() }

// Close ends the subscription. It may be called repeatedly and at any time.
func (f *Feed) Close() { f.feed.Close() }
