package bullpen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
)

// InlineState is the state of an [Inline].
type InlineState uint8

// The states of an Inline, in their order.
const (
	// InlineOpen: it accepts tasks.
	InlineOpen InlineState = iota
	// InlineEnding: it refuses tasks, and lets those that run finish.
	InlineEnding
	// InlineClosing: it has canceled those that run.
	InlineClosing
	// InlineClosed: it has ended.
	InlineClosed
)

// String returns the name of s.
func (s InlineState) String() string {
	if s > InlineClosed {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return [...]string{"open", "ending", "closing", "closed"}[s]
}

// Drain refuses new tasks and waits for those that run; see [Executor].
func (e *Inline) Drain(ctx context.Context) error {
	before := e.moveTo(InlineEnding)
	select {
	case <-e.idle:
	default:
		select {
		case <-e.idle:
		case <-ctx.Done():
		}
	}
	var stuck error
	cause := ErrClosed
	if ctx.Err() != nil {
		cause, stuck = context.Cause(ctx), e.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.aborted - before; n > 0 {
		stuck = errors.Join(fmt.Errorf("%d running tasks were aborted: %w", n, cause), stuck)
	}
	return stuck
}

// Stop is like Drain, because no task waits.
func (e *Inline) Stop(ctx context.Context) error { return e.Drain(ctx) }

// Close refuses new tasks, cancels those that run, and waits for them for CloseGrace.
func (e *Inline) Close() error {
	e.moveTo(InlineClosing)
	timer := time.NewTimer(e.grace)
	defer timer.Stop()
	select {
	case <-e.idle:
		return nil
	case <-timer.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == nil {
		return nil
	}
	return fmt.Errorf("%d tasks ignore the end of their context; one of them is %q %s", e.stats.Running, e.running.name, e.running.id)
}

// moveTo moves to a later state, and returns how many tasks were aborted before.
func (e *Inline) moveTo(s InlineState) (aborted int) {
	e.mu.Lock()
	aborted = e.aborted
	if s <= e.ending {
		e.mu.Unlock()
		return aborted
	}
	e.setState(s)
	var cancels []context.CancelCauseFunc
	for c := e.running; c != nil && s == InlineClosing; c = c.next {
		c.closed = true
		if c.cancel != nil {
			cancels = append(cancels, c.cancel)
		}
	}
	e.rest()
	e.mu.Unlock()
	for _, cancel := range cancels {
		cancel(ErrClosed)
	}
	return aborted
}

// rest ends an executor that refuses tasks and runs none. mu is held.
func (e *Inline) rest() {
	if e.running == nil && (e.ending == InlineEnding || e.ending == InlineClosing) {
		e.setState(InlineClosed)
		close(e.idle)
		e.events.Close()
	}
}

// setState changes the state. mu is held.
func (e *Inline) setState(s InlineState) {
	e.ending = s
	e.events.Send(InlineEvent{Time: time.Now(), State: s})
}

// InlineEvent is a task with the outcome Panic or Timeout, or a new state.
type InlineEvent struct {
	Time time.Time
	// Task and ID are those of the task, and Err is its *TaskError; nil for a new state.
	Task, ID string
	Err      error
	// State is the new state.
	State InlineState
}

// InlineFeed is a subscription to the events of an [Inline]. A slow reader loses events.
type InlineFeed struct {
	// C delivers the events. It is closed by Close and when the executor has ended.
	C    <-chan InlineEvent
	feed *feed.Feed[InlineEvent]
}

// Events subscribes to the events that follow. buffer is the number of events held for a slow
// reader; 0 means 256.
func (e *Inline) Events(buffer int) *InlineFeed {
	f := e.events.Feed(buffer)
	return &InlineFeed{C: f.C, feed: f}
}

// Dropped returns the number of events that were lost.
func (f *InlineFeed) Dropped() uint64 { return f.feed.Dropped() }

// Close ends the subscription.
func (f *InlineFeed) Close() { f.feed.Close() }
