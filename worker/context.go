package worker

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// taskContext is the context of one task. Each task has its own, because a handler may pass
// it to a goroutine that lives longer. Its channel, timer and hooks are made on demand, and
// contexts are allocated many at a time, so a task that does not use its context pays some
// 10 ns for it.
//
// Lock order: mu, then the lock of the answers.
type taskContext struct {
	session  *session
	id       uint32
	limited  bool          // has a timeout
	deadline time.Duration // on the session's clock; set before the handler starts
	output   uint64        // maximum size of the result, 0 for no limit

	mu    sync.Mutex
	state taskState // guarded by mu
	// answered is set when the handler has returned; guarded by mu.
	answered bool
	done     chan struct{} // nil until Done is called; guarded by mu
	timer    *time.Timer   // nil until Done is called; guarded by mu
	// sent is how many bytes of the result were sent in pieces; guarded by mu until answered.
	sent uint64
	// hooks are the functions of AfterFunc that have not run yet; guarded by mu.
	hooks map[*hook]struct{}
}

type hook struct{ f func() }

// taskState is whether and why a task's context has ended.
type taskState uint8

const (
	running  taskState = 0
	timedOut taskState = protocol.ReasonTimeout
	canceled taskState = protocol.ReasonCanceled
	returned taskState = 5 // the handler has returned without being asked to end
)

var _ context.Context = (*taskContext)(nil)

// contextKey is the key of the taskContext in derived contexts.
type contextKey struct{}

// taskOf returns the task that runs under ctx, or nil.
func taskOf(ctx context.Context) *taskContext {
	c, _ := ctx.Value(contextKey{}).(*taskContext)
	return c
}

// Deadline returns the end of the task's timeout.
func (c *taskContext) Deadline() (time.Time, bool) {
	if !c.limited {
		return time.Time{}, false
	}
	return c.session.base.Add(c.deadline), true
}

// Value holds only the task itself.
func (c *taskContext) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return nil
}

// Done returns a channel that is closed when the task must end.
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

// Err reports whether and why the task must end.
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

// AfterFunc lets package context derive contexts without an extra goroutine each.
func (c *taskContext) AfterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != running {
		go f() // as context.AfterFunc does; no goroutine waits for it
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

// watch starts the timer of the timeout. It is called when the context is first observed.
// c.mu is held.
func (c *taskContext) watch() {
	if c.limited && c.timer == nil && c.state == running {
		c.timer = time.AfterFunc(c.deadline-c.session.now(), func() { c.stop(timedOut) })
	}
}

// stop ends the context for a reason. The first reason counts; stop returns it.
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
		go h.f() // as context.AfterFunc does; no goroutine waits for it
	}
	return why
}

// finish ends the context because the handler has returned, and returns its state before
// that.
func (c *taskContext) finish() taskState {
	c.mu.Lock()
	c.answered = true
	c.mu.Unlock()
	return c.stop(returned)
}

// observer is the task's Observer. It sends to the host what package pool would call
// directly.
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

// streamer is an observer for a host that accepts a result in pieces.
type streamer struct{ *observer }

var _ bullpen.ChunkObserver = streamer{}

// Chunk sends CHUNK.
func (s streamer) Chunk(piece []byte) { (*taskContext)(s.observer).chunk(piece) }
