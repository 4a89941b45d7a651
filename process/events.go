package process

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
	// Started: a worker process was started.
	Started EventKind = iota + 1
	// Ready: the worker can take tasks.
	Ready
	// KeptAlive: the worker was idle for the idle timeout and stays because of Min or
	// Spare; once per timeout.
	KeptAlive
	// Retired: the worker is leaving; Cause is the reason.
	Retired
	// Stopped: the worker has ended as planned.
	Stopped
	// Died: the worker has ended unexpectedly; Cause is the reason.
	Died
	// StartFailed: the worker did not become ready.
	StartFailed
	// Opened: starts failed so often that tasks now fail at once instead of waiting.
	Opened
	// Mended: a start has succeeded after Opened.
	Mended
	// Changed: the state of the pool changed.
	Changed
)

var eventNames = [...]string{
	Started: "started", Ready: "ready", KeptAlive: "kept alive", Retired: "retired", Stopped: "stopped", Died: "died",
	StartFailed: "start failed", Opened: "breaker opened", Mended: "breaker closed", Changed: "pool changed state",
}

// String returns the name of k.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Cause is why a worker ended.
type Cause uint8

// The causes of a worker's end.
const (
	// ByIdle: the worker reached the idle timeout.
	ByIdle Cause = iota
	// ByTasks, ByAge, ByMemory: the worker reached a bound of Recycle.
	ByTasks
	ByAge
	ByMemory
	// ByReload: Reload or Recycle replaced the worker.
	ByReload
	// ByResize: the pool became smaller.
	ByResize
	// ByEnd: the pool ended.
	ByEnd
	// ByItself: the worker asked to be replaced.
	ByItself
	// ByBudget: the worker made room for a worker of another pool.
	ByBudget
	// ByExit: the worker exited by itself.
	ByExit
	// BySignal: the worker was ended by a signal.
	BySignal
	// ByTimeout: the worker was killed because a task exceeded its time limit.
	ByTimeout
	// ByCancel: the worker was killed because a task was canceled.
	ByCancel
	// ByProtocol: the worker was killed because it violated the protocol.
	ByProtocol
	// BySilence: the worker was killed because it did not answer.
	BySilence
	// ByBound: the worker was killed because it reached its memory bound.
	ByBound

	causes = iota
)

var causeNames = [causes]string{
	"idle", "tasks", "age", "memory", "reload", "resize", "end of the pool", "own wish", "budget",
	"exit", "signal", "timeout", "cancel", "protocol", "silence", "memory bound",
}

// String returns the name of c.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// Event is something that happened in a pool.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Worker string // name; empty for events of the pool itself
	PID    int    // as seen by the host; 0 if there is none
	Cause  Cause  // set for Retired, Stopped and Died
	// Text has details for people: exit status, error, new state.
	Text string
	// Err is the cause as an error, such as [ErrExtraLine], a *[MemoryError], or a
	// *[StartError] of StartFailed and Opened; otherwise nil.
	Err error
	// Took is the time from start to ready, set for Ready.
	Took time.Duration
}

// Feed is a subscription to a pool's events. A slow reader loses events but never slows
// the pool.
type Feed struct {
	// C delivers the events. It is closed by Close and when the pool has ended.
	C    <-chan Event
	feed *feed.Feed[Event]
}

// Events subscribes to the events that follow. The start of the Min workers may already
// be over; see [Pool.Stats]. buffer is the number of events held for a slow reader; 0
// means 256.
func (p *Pool) Events(buffer int) *Feed {
	f := p.events.Feed(buffer)
	return &Feed{C: f.C, feed: f}
}

// Dropped returns the number of events that were lost.
func (f *Feed) Dropped() uint64 { return f.feed.Dropped() }

// Close ends the subscription.
func (f *Feed) Close() { f.feed.Close() }

// emit sends e to the subscribers and the log. It never blocks. Pool.mu is held.
func (p *Pool) emit(e Event) {
	e.Time = time.Now()
	p.events.Send(e)
	if !p.logs.deaf(e) {
		p.logs.put(record{event: e})
	}
}

func (e Event) level() slog.Level {
	switch e.Kind {
	case Died, StartFailed, Opened:
		return slog.LevelWarn
	case Started, Ready, Retired, Stopped, Mended, Changed:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
