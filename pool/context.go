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

// body is a task as its context sees it.
type body interface {
	owner
}

// taskContext is the context of one task that has a deadline or was submitted
// with a context that can end. It is made for the task and never used again, so
// that a body which keeps it sees nothing of later tasks. It is what lies in the
// queue in the task's place: so the keeper finds it at the worker.
type taskContext struct {
	parent  context.Context
	task    body
	head    *head
	place   *placement
	gen     uint64
	timeout time.Duration
	worker  atomic.Pointer[worker] // nil before it starts

	verdict error // of an abandoned task, written before it is lost

	begun  int64        // when the keeper first saw it run; used by the keeper only
	asked  atomic.Int64 // when it was canceled, 0 is not
	mu     sync.Mutex
	done   chan struct{} // made when asked for; mu guards what follows
	err    error
	cause  error
	until  time.Time   // what Deadline said
	unhook func() bool // ends the watch over parent
	calls  []*func()   // of AfterFunc
	leave  func()      // ends the timer of a guest; of the goroutine that runs the task
}

// verdict is the outcome of an abandoned task.
func (h *head) verdict() error {
	if h.own != nil && h.own.verdict != nil {
		return h.own.verdict
	}
	return taskError(h.place.kind.name, bullpen.Canceled, errForsaken)
}

var errForsaken = errors.New("it ignored the end of the pool")

// own gives a task a context of its own where it needs one. ctx is that of the
// caller; when it is nil nothing of it matters.
func (at *placement) own(ctx context.Context, task body, h *head) *taskContext {
	if ctx == nil {
		ctx = context.Background()
	}
	return &taskContext{
		parent: ctx, task: task, head: h, place: at, gen: genOf(h.word.Load()), timeout: at.timeout,
	}
}

func (c *taskContext) run(w *worker) {
	if c.head.begin() {
		c.task.execute(w)
	}
}

func (c *taskContext) fail(err error)            { c.task.fail(err) }
func (c *taskContext) stale() bool               { return c.task.stale() }
func (c *taskContext) crash(w *worker, t thrown) { c.task.crash(w, t) }
func (c *taskContext) named() *kind              { return c.place.kind }

// start ties the context to the worker that runs its task.
func (c *taskContext) start(w *worker) {
	c.worker.Store(w)
	w.context.Store(c)
	p := c.place.pool
	if w.guest {
		c.visit()
		return
	}
	p.stir()
	if p.state.State() >= Closing {
		c.cancel(context.Canceled, p.closedError()) // the pool's end may have missed it
	}
}

// visit is start in the goroutine of a caller, where the keeper does not look.
func (c *taskContext) visit() {
	p := c.place.pool
	if c.timeout > 0 {
		timer := time.AfterFunc(c.timeout, func() { c.cancel(context.DeadlineExceeded, nil) })
		c.leave = func() { timer.Stop() }
	}
	p.mu.Lock()
	p.visitors[c] = struct{}{}
	closing := p.state.State() >= Closing
	p.mu.Unlock()
	if closing {
		c.cancel(context.Canceled, p.closedError())
	}
}

// stop ends the context after its task, as context.WithCancel's cancel does.
func (c *taskContext) stop() {
	if w := c.worker.Load(); w != nil && w.guest {
		if c.leave != nil {
			c.leave()
		}
		p := c.place.pool
		p.mu.Lock()
		delete(p.visitors, c)
		p.mu.Unlock()
	}
	c.mu.Lock()
	unhook := c.finish(context.Canceled, nil)
	c.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

// finish sets err and closes done. mu is held.
func (c *taskContext) finish(err, cause error) (unhook func() bool) {
	if c.err != nil {
		return nil
	}
	c.err, c.cause = err, cause
	if c.done != nil {
		close(c.done)
	}
	for _, call := range c.calls {
		go (*call)() // as context.AfterFunc does; the call's owner waits for it
	}
	c.calls = nil
	unhook, c.unhook = c.unhook, nil
	return unhook
}

// cancel ends the context, and the task too when it has not started.
func (c *taskContext) cancel(err, cause error) {
	c.asked.CompareAndSwap(0, c.place.pool.now())
	c.mu.Lock()
	unhook := c.finish(err, cause)
	c.mu.Unlock()
	if unhook != nil {
		unhook()
	}
	if cause == nil {
		cause = err
	}
	c.head.revoke(c.gen, fmt.Errorf("task %q: %w", c.place.kind.name, cause))
}

// parentEnded carries the end of the caller's context over to the task.
func (c *taskContext) parentEnded() { c.cancel(c.parent.Err(), context.Cause(c.parent)) }

// Deadline is the earlier one of the caller's and of the task's own, which counts
// from when it is asked for first: to read the clock for each task would cost
// more than many tasks do.
func (c *taskContext) Deadline() (time.Time, bool) {
	deadline, ok := c.parent.Deadline()
	if c.timeout == 0 {
		return deadline, ok
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		c.until = time.Now().Add(c.timeout)
	}
	if !ok || c.until.Before(deadline) {
		return c.until, true
	}
	return deadline, true
}

// Done is closed at the deadline, when the task is canceled and when it is over.
func (c *taskContext) Done() <-chan struct{} {
	c.mu.Lock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	done, hook := c.done, c.err == nil && c.unhook == nil && c.parent.Done() != nil
	c.mu.Unlock()
	if hook {
		c.hook()
	}
	return done
}

// hook follows the end of the parent at once; without it the keeper sees it at
// its next tick.
func (c *taskContext) hook() {
	unhook := context.AfterFunc(c.parent, c.parentEnded)
	c.mu.Lock()
	if c.err == nil && c.unhook == nil {
		c.unhook, unhook = unhook, nil
	}
	c.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

func (c *taskContext) Err() error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err == nil {
		err = c.parent.Err()
	}
	return err
}

func (c *taskContext) Value(key any) any {
	switch key {
	case workerKey{}:
		return c.worker.Load()
	default:
		return c.parent.Value(key)
	}
}

// AfterFunc lets package context derive from c without a goroutine that waits.
func (c *taskContext) AfterFunc(f func()) (stop func() bool) {
	c.Done() // follows the parent
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f() // as context.AfterFunc does; f's owner waits for it
		return func() bool { return false }
	}
	call := &f
	c.calls = append(c.calls, call)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.calls, call)
		if i >= 0 {
			c.calls = slices.Delete(c.calls, i, i+1)
		}
		return i >= 0
	}
}

// watch is the keeper's look at a task: whether it runs, and how it has overrun,
// nil when it has not.
func (c *taskContext) watch(now int64) (running bool, why error) {
	if word := c.head.word.Load(); genOf(word) != c.gen || stateOf(word) != TaskRunning {
		return false, nil
	}
	if c.begun == 0 {
		c.begun = now
	}
	if c.timeout > 0 && now-c.begun >= int64(c.timeout) {
		err := taskError(c.place.kind.name, bullpen.Timeout, fmt.Errorf("ran longer than %v: %w", c.timeout, context.DeadlineExceeded))
		return true, err
	}
	asked := c.asked.Load()
	if asked == 0 {
		if c.parent.Err() != nil {
			c.parentEnded()
		}
		return true, nil
	}
	if now-asked < int64(c.place.pool.config.Grace) {
		return true, nil
	}
	outcome := bullpen.Canceled
	c.mu.Lock()
	cause := c.cause
	if errors.Is(c.err, context.DeadlineExceeded) {
		outcome = bullpen.Timeout
	}
	c.mu.Unlock()
	if cause == nil {
		cause = context.Canceled
	}
	return true, taskError(c.place.kind.name, outcome, fmt.Errorf("went on for longer than %v after its end: %w", c.place.pool.config.Grace, cause))
}
