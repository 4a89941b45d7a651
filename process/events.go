package process

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Started: a worker process was started.
	Started EventKind = iota + 1
	// Ready: it can take tasks.
	Ready
	// KeptAlive: it has idled for the idle timeout and stays because of Min or
	// Spare; once per timeout.
	KeptAlive
	// Retired: it was told to leave; Cause says why.
	Retired
	// Stopped: it has ended as planned.
	Stopped
	// Died: it has ended unplanned; Cause says how.
	Died
	// StartFailed: it did not become ready.
	StartFailed
	// Opened: starts failed so often that callers are told at once.
	Opened
	// Mended: a start succeeded after that.
	Mended
	// Changed: the pool moved to another state.
	Changed
)

var eventNames = [...]string{
	Started: "started", Ready: "ready", KeptAlive: "kept alive", Retired: "retired", Stopped: "stopped", Died: "died",
	StartFailed: "start failed", Opened: "breaker opened", Mended: "breaker closed", Changed: "pool changed state",
}

// String returns the words for k.
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
	// ByIdle: the idle timeout.
	ByIdle Cause = iota
	// ByTasks, ByAge, ByMemory: recycled.
	ByTasks
	ByAge
	ByMemory
	// ByReload: replaced by Reload.
	ByReload
	// ByResize: the pool became smaller.
	ByResize
	// ByEnd: the pool ended.
	ByEnd
	// ByItself: the worker asked to be replaced.
	ByItself
	// ByBudget: it made room for a worker of another pool.
	ByBudget
	// ByExit: it exited by itself.
	ByExit
	// BySignal: a signal ended it.
	BySignal
	// ByTimeout: killed because a task overran its time.
	ByTimeout
	// ByCancel: killed because a task was taken back.
	ByCancel
	// ByProtocol: killed because it broke the protocol.
	ByProtocol
	// BySilence: killed because it did not answer.
	BySilence
	// ByBound: killed because it reached its bound of memory.
	ByBound

	causes = iota
)

var causeNames = [causes]string{
	"idle", "tasks", "age", "memory", "reload", "resize", "end of the pool", "own wish", "budget",
	"exit", "signal", "timeout", "cancel", "protocol", "silence", "memory bound",
}

// String returns the word for c.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// Event is one thing that happened in a pool.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Worker string // name, empty where the event is of the pool
	PID    int    // as the host sees it, 0 where there is none
	Cause  Cause  // of Retired, Stopped and Died
	// Text says more, for people: exit status, error, new state.
	Text string
	// Took is the time from start to ready, of Ready.
	Took time.Duration
}

// Feed is a subscription to a pool's events. A reader that is slower than the
// pool loses events, never slows it.
type Feed struct {
	// C gives the events; it is closed by Close and when the pool has ended.
	C       <-chan Event
	c       chan Event
	pool    *Pool
	dropped atomic.Uint64
}

// Events subscribes to what happens from now on; the start of the Min workers
// may be over by then, which [Pool.Stats] tells. buffer is the number of events
// held for a reader that is late; 0 means 256.
func (p *Pool) Events(buffer int) *Feed {
	if buffer <= 0 {
		buffer = 256
	}
	f := &Feed{c: make(chan Event, buffer), pool: p}
	f.C = f.c
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.State() == Closed {
		close(f.c)
		return f
	}
	p.feeds = append(p.feeds, f)
	return f
}

// Dropped returns the number of events that were lost.
func (f *Feed) Dropped() uint64 { return f.dropped.Load() }

// Close ends the subscription.
func (f *Feed) Close() {
	p := f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.feeds, f); i >= 0 {
		p.feeds = slices.Delete(p.feeds, i, i+1)
		close(f.c)
	}
}

// emit tells subscribers and the log. Pool.mu is held; nothing here waits.
func (p *Pool) emit(e Event) {
	e.Time = time.Now()
	for _, f := range p.feeds {
		select {
		case f.c <- e:
		default:
			f.dropped.Add(1)
		}
	}
	if !p.logs.deaf(e) {
		p.logs.put(record{event: e})
	}
}

// closeFeeds ends all subscriptions. Pool.mu is held.
func (p *Pool) closeFeeds() {
	for _, f := range p.feeds {
		close(f.c)
	}
	p.feeds = nil
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
