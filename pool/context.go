package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// taskContext is the context of one task that has a timeout or was submitted with a context
// that can end. It is made for one task and never reused, so a body that keeps it cannot
// observe later tasks. It is queued in place of the task, so that the keeper finds it at
// the worker. Fields that few tasks need are in contextMore, to save work for the garbage
// collector.
type taskContext struct {
	parent  context.Context //nolint:containedctx // it is a context itself
	head    *head
	gen     uint64
	timeout time.Duration
	worker  *worker      // written before the body receives the context
	begun   int64        // when the keeper first saw it run; used by the keeper only
	asked   atomic.Int64 // when it was canceled, or 0
	ended   atomic.Uint32
	more    atomic.Pointer[contextMore]
}

// Values of taskContext.ended.
const (
	notEnded = iota
	endedByCancel
	endedByDeadline
)

// contextMore is created on demand.
type contextMore struct {
	verdict error // of an abandoned task, written before its state is TaskLost

	mu     sync.Mutex
	done   chan struct{} // made on demand; mu guards the fields below
	closed bool
	cause  error
	until  time.Time   // what Deadline returned
	unhook func() bool // stops watching parent
	calls  []*func()   // of AfterFunc
	leave  func()      // stops the timer of a guest; used by the goroutine that runs the task
}

// extra returns c.more, and creates it if necessary.
func (c *taskContext) extra() *contextMore {
	if m := c.more.Load(); m != nil {
		return m
	}
	c.more.CompareAndSwap(nil, &contextMore{})
	return c.more.Load()
}

// verdict returns the outcome of an abandoned task.
func (h *head) verdict() error {
	if h.own != nil {
		if m := h.own.more.Load(); m != nil && m.verdict != nil {
			return m.verdict
		}
	}
	return taskError(h.target.kind.name, bullpen.Canceled, errForsaken)
}

var errForsaken = errors.New("it ignored the end of the pool")

// own makes a context for a task. ctx is the caller's context.
func (at *target) own(ctx context.Context, h *head) *taskContext {
	return &taskContext{parent: ctx, head: h, gen: genOf(h.word.Load()), timeout: at.timeout}
}

func (c *taskContext) run(w *worker) {
	if c.parent.Done() != nil && c.parent.Err() != nil {
		c.parentEnded() // not noticed yet
	}
	if c.head.begin() {
		c.head.self.execute(w)
	}
}

func (c *taskContext) fail(err error)            { c.head.self.fail(err) }
func (c *taskContext) stale() bool               { return c.head.self.stale() }
func (c *taskContext) crash(w *worker, t thrown) { c.head.self.crash(w, t) }
func (c *taskContext) named() *kind              { return c.head.target.kind }
func (c *taskContext) pool() *Pool               { return c.head.target.pool }

// start ties the context to the worker that runs its task.
func (c *taskContext) start(w *worker) {
	c.worker = w
	if w.guest {
		c.visit()
		return
	}
	w.context.Store(c)
	p := w.pool
	p.wakeKeeper()
	if p.state.State() >= Closing {
		c.cancel(context.Canceled, p.closedError()) // the pool's shutdown may have missed it
	}
}

// visit is start for a task in a caller's goroutine, which the keeper does not watch.
func (c *taskContext) visit() {
	p := c.pool()
	if c.timeout > 0 {
		timer := time.AfterFunc(c.timeout, func() { c.cancel(context.DeadlineExceeded, nil) })
		c.extra().leave = func() { timer.Stop() }
	}
	p.mu.Lock()
	p.visitors[c] = struct{}{}
	closing := p.state.State() >= Closing
	p.mu.Unlock()
	if closing {
		c.cancel(context.Canceled, p.closedError())
	}
}

// stop ends the context after its task was published.
func (c *taskContext) stop() {
	if w := c.worker; w != nil && w.guest {
		if m := c.more.Load(); m != nil && m.leave != nil {
			m.leave()
		}
		w.pool.mu.Lock()
		delete(w.pool.visitors, c)
		w.pool.mu.Unlock()
	}
	if c.more.Load() != nil {
		c.finish(context.Canceled, nil)
	}
}

// running reports whether the body runs and the task was not answered yet.
func (c *taskContext) running() bool {
	word := c.head.word.Load()
	return genOf(word) == c.gen && stateOf(word) == TaskRunning
}

// over reports whether the body has given the task its outcome. That ends the context
// without any further step, so code that creates contextMore also checks over.
func (c *taskContext) over() bool {
	word := c.head.word.Load()
	return genOf(word) != c.gen || stateOf(word) == TaskDone
}

// finish ends the context, once. Other goroutines create contextMore before they check
// whether the context has ended; finish does it in the opposite order, so none is missed.
func (c *taskContext) finish(err, cause error) {
	how := uint32(endedByCancel)
	if err == context.DeadlineExceeded { //nolint:errorlint // it is what this package says, or a context
		how = endedByDeadline
	}
	if cause != nil {
		m := c.extra()
		m.mu.Lock()
		if m.cause == nil {
			m.cause = cause
		}
		m.mu.Unlock()
	}
	if c.ended.CompareAndSwap(notEnded, how) {
		if m := c.more.Load(); m != nil {
			m.finish()
		}
	}
}

// finish closes the Done channel and runs the functions of AfterFunc.
func (m *contextMore) finish() {
	m.mu.Lock()
	if m.done != nil && !m.closed {
		close(m.done)
	}
	m.closed = true
	for _, call := range m.calls {
		go (*call)() // as context.AfterFunc does; the call's owner waits for it
	}
	m.calls = nil
	unhook := m.unhook
	m.unhook = nil
	m.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

// cancel ends the context, and also the task if it has not started.
func (c *taskContext) cancel(err, cause error) {
	c.asked.CompareAndSwap(0, c.pool().now())
	c.finish(err, cause)
	c.pool().wakeKeeper() // its grace begins
	if cause == nil {
		cause = err
	}
	c.head.revoke(c.gen, fmt.Errorf("task %q: %w", c.named().name, cause))
}

// parentEnded cancels the task because the caller's context has ended.
func (c *taskContext) parentEnded() { c.cancel(c.parent.Err(), context.Cause(c.parent)) }

// Deadline returns the earlier of the caller's deadline and the task's own. The task's own
// deadline counts from the first call of Deadline, because reading the clock for each task
// would cost more than many tasks do.
func (c *taskContext) Deadline() (time.Time, bool) {
	deadline, ok := c.parent.Deadline()
	if c.timeout == 0 {
		return deadline, ok
	}
	m := c.extra()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until.IsZero() {
		m.until = time.Now().Add(c.timeout)
	}
	if !ok || m.until.Before(deadline) {
		return m.until, true
	}
	return deadline, true
}

// Done is closed at the deadline, and when the task is canceled or over.
func (c *taskContext) Done() <-chan struct{} {
	m := c.extra()
	m.mu.Lock()
	if m.done == nil {
		m.done = make(chan struct{})
		if m.closed {
			close(m.done)
		}
	}
	done, hook := m.done, m.unhook == nil && c.parent.Done() != nil
	m.mu.Unlock()
	switch {
	case c.ended.Load() != notEnded || c.over():
		m.finish()
	case hook:
		c.hook(m)
	}
	return done
}

// hook watches the parent, so that its end takes effect immediately. Without it, the keeper
// notices at its next tick.
func (c *taskContext) hook(m *contextMore) {
	unhook := context.AfterFunc(c.parent, c.parentEnded)
	m.mu.Lock()
	if !m.closed && m.unhook == nil {
		m.unhook, unhook = unhook, nil
	}
	m.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

func (c *taskContext) Err() error {
	switch c.ended.Load() {
	case endedByCancel:
		return context.Canceled
	case endedByDeadline:
		return context.DeadlineExceeded
	default:
		if c.over() {
			return context.Canceled
		}
		return c.parent.Err()
	}
}

func (c *taskContext) Value(key any) any {
	if key == (workerKey{}) {
		return c.worker
	}
	return c.parent.Value(key)
}

// AfterFunc lets package context derive contexts from c without an extra goroutine.
func (c *taskContext) AfterFunc(f func()) (stop func() bool) {
	c.Done() // watches the parent
	m := c.extra()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		go f() // as context.AfterFunc does; f's owner waits for it
		return func() bool { return false }
	}
	call := &f
	m.calls = append(m.calls, call)
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.calls, call)
		if i >= 0 {
			m.calls = slices.Delete(m.calls, i, i+1)
		}
		return i >= 0
	}
}

// look is what the keeper learns about a task.
type look struct {
	fresh bool  // it has just begun or may end soon, so the next tick must not be late
	due   int64 // when it overruns, 0 for never
	why   error // the outcome if it has overrun
}

// hookAfter is for how long the keeper polls the caller's context at each tick. For longer
// tasks it uses hook.
const hookAfter = 5 * tick

// watch checks a task for the keeper. A task that does not run gives an empty look.
func (c *taskContext) watch(now int64) look {
	if !c.running() {
		return look{}
	}
	l := look{}
	if c.begun == 0 {
		c.begun, l.fresh = now, true
	}
	if asked := c.asked.Load(); asked != 0 {
		l.due = asked + int64(c.pool().config.Grace)
		if now >= l.due {
			l.why = c.late()
		}
	} else if c.parent.Done() != nil {
		switch {
		case c.parent.Err() != nil:
			c.parentEnded()
			l.fresh = true
		case now-c.begun < hookAfter:
			l.fresh = true
		default:
			c.Done()
		}
	}
	if due := c.begun + int64(c.timeout); c.timeout > 0 {
		if now >= due {
			l.why = taskError(c.named().name, bullpen.Timeout, fmt.Errorf("ran longer than %v: %w", c.timeout, context.DeadlineExceeded))
		}
		if l.due == 0 || due < l.due {
			l.due = due
		}
	}
	return l
}

// late returns the outcome of a task that keeps running after the grace.
func (c *taskContext) late() error {
	outcome := bullpen.Canceled
	if c.ended.Load() == endedByDeadline {
		outcome = bullpen.Timeout
	}
	return taskError(c.named().name, outcome, fmt.Errorf("kept running for more than %v after its end: %w", c.pool().config.Grace, c.cause()))
}

// cause returns why the context has ended.
func (c *taskContext) cause() error {
	m := c.extra()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return m.cause
	}
	return c.Err()
}
