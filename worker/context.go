package worker

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// taskContext is the context of one task. Each task has its own, since a
// handler may hand it to a goroutine that lives longer; but its channel, its
// timer and its hooks are made only when somebody asks for them, and the values
// are allocated many at a time. So a task that does not look at its context pays
// some 10 ns for it.
//
// Lock order: mu before the lock of the answers.
type taskContext struct {
	session  *session
	id       uint32
	limited  bool          // has a limit of run time
	deadline time.Duration // on the session's clock; set before the handler starts

	mu    sync.Mutex
	state taskState // +checklocks:mu
	// answered is set once the handler has returned.
	// +checklocks:mu
	answered bool
	done     chan struct{} // +checklocks:mu; nil until Done is called
	timer    *time.Timer   // +checklocks:mu; nil until Done is called
	// hooks are the functions of AfterFunc that have not run.
	// +checklocks:mu
	hooks map[*hook]struct{}
}

type hook struct{ f func() }

// taskState says whether a task's context has ended, and why.
type taskState uint8

const (
	running  taskState = 0
	timedOut taskState = protocol.ReasonTimeout
	canceled taskState = protocol.ReasonCanceled
	returned taskState = 5 // the handler has returned; nobody asked it to
)

var _ context.Context = (*taskContext)(nil)

// contextKey finds the taskContext behind contexts that were made from it.
type contextKey struct{}

// taskOf returns the task that runs under ctx, nil when there is none.
func taskOf(ctx context.Context) *taskContext {
	c, _ := ctx.Value(contextKey{}).(*taskContext)
	return c
}

// Deadline gives the end of the task's run-time limit.
func (c *taskContext) Deadline() (time.Time, bool) {
	if !c.limited {
		return time.Time{}, false
	}
	return c.session.base.Add(c.deadline), true
}

// Value knows no values but the task itself.
func (c *taskContext) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return nil
}

// Done returns a channel that is closed when the task is to end.
func (c *taskContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.state != running {
			close(c.done)
		}
		c.watch()
	}
	return c.done
}

// Err says whether the task is to end, and why.
func (c *taskContext) Err() error {
	c.mu.Lock()
	over := c.state == running && c.limited && c.session.now() >= c.deadline
	state := c.state
	c.mu.Unlock()
	if over {
		state = c.stop(timedOut)
	}
	switch state {
	case running:
		return nil
	case timedOut:
		return context.DeadlineExceeded
	case canceled, returned:
		return context.Canceled
	default:
		return context.Canceled
	}
}

// AfterFunc lets contexts that are made from this one end without a goroutine
// each; package context looks for it.
func (c *taskContext) AfterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != running {
		go f() // as context.AfterFunc does; nobody waits for it
		return func() bool { return false }
	}
	if c.hooks == nil {
		c.hooks = make(map[*hook]struct{})
	}
	c.hooks[h] = struct{}{}
	c.watch()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.hooks[h]
		delete(c.hooks, h)
		return waits
	}
}

// watch starts the timer of the limit when there is somebody to tell.
//
// +checklocks:c.mu
func (c *taskContext) watch() {
	if c.limited && c.timer == nil && c.state == running {
		c.timer = time.AfterFunc(c.deadline-c.session.now(), func() { c.stop(timedOut) })
	}
}

// stop ends the context, for a reason; the first one counts, and is returned.
func (c *taskContext) stop(why taskState) taskState {
	c.mu.Lock()
	if c.state != running {
		defer c.mu.Unlock()
		return c.state
	}
	c.state = why
	hooks := c.hooks
	c.hooks = nil
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	for h := range hooks {
		go h.f() // as context.AfterFunc does; nobody waits for it
	}
	return why
}

// finish ends the context because its handler has returned, and says how it
// stood before.
func (c *taskContext) finish() taskState {
	c.mu.Lock()
	c.answered = true
	c.mu.Unlock()
	return c.stop(returned)
}

// observer is the task's Observer: what package pool calls directly, a worker
// sends to the host.
type observer taskContext

var _ bullpen.Observer = (*observer)(nil)

// Progress sends PROGRESS.
func (o *observer) Progress(fraction float64, note string) {
	(*taskContext)(o).progress(fraction, note)
}

// Log sends LOG.
func (o *observer) Log(line bullpen.LogLine) {
	stream := uint32(protocol.StreamLog)
	switch line.Stream {
	case "stdout":
		stream = protocol.StreamStdout
	case "stderr":
		stream = protocol.StreamStderr
	}
	(*taskContext)(o).log(line.Level, stream, line.Text)
}
