package bullpen

import (
	"context"
	"time"
)

// inlineContext is the context of a handler that an Inline runs. What waiting for its end
// needs is made on demand. It is used again only for tasks with the same caller's context,
// and only if it has never been waited for, so a handler that keeps it learns nothing of
// other tasks.
type inlineContext struct {
	context.Context //nolint:containedctx // of the caller

	executor *Inline
	until    time.Time // the time limit; zero for none

	name, id     string                  // of the task, while it runs
	next, before *inlineContext          // in the list of running tasks; guarded by executor.mu
	closed       bool                    // Close has asked the task to end; guarded by executor.mu
	own          context.Context         //nolint:containedctx // made by the first call of Done; guarded by executor.mu
	cancel       context.CancelCauseFunc // of own; guarded by executor.mu
}

// Deadline returns that of the caller, or the time limit if it is earlier.
func (c *inlineContext) Deadline() (time.Time, bool) {
	at, ok := c.Context.Deadline()
	if !c.until.IsZero() && (!ok || c.until.Before(at)) {
		return c.until, true
	}
	return at, ok
}

// made returns own, or nil.
func (c *inlineContext) made() (own context.Context, closed bool) {
	c.executor.mu.Lock()
	defer c.executor.mu.Unlock()
	return c.own, c.closed
}

// Done returns a channel that is closed when the context ends.
func (c *inlineContext) Done() <-chan struct{} {
	if own, _ := c.made(); own != nil {
		return own.Done()
	}
	own, cancel := context.WithCancelCause(c.Context) // without the lock: the caller may be a task of this executor too
	if !c.until.IsZero() {
		timed, stop := context.WithDeadline(own, c.until)
		inner := cancel
		own, cancel = timed, func(cause error) { inner(cause); stop() }
	}
	c.executor.mu.Lock()
	if c.own == nil {
		c.own, c.cancel = own, cancel
		cancel = nil
	}
	own, closed, end := c.own, c.closed, c.cancel
	c.executor.mu.Unlock()
	if cancel != nil { // another goroutine was quicker
		cancel(nil)
	}
	if closed {
		end(ErrClosed)
	}
	return own.Done()
}

// Err returns why the context has ended, or nil.
func (c *inlineContext) Err() error {
	own, closed := c.made()
	if own != nil {
		return own.Err()
	}
	switch err := c.Context.Err(); {
	case err != nil:
		return err
	case closed:
		return context.Canceled
	case !c.until.IsZero() && !time.Now().Before(c.until):
		return context.DeadlineExceeded
	}
	return nil
}

// Value returns that of the caller's context. Package context finds own by it, so that
// contexts made of this one need no goroutine.
func (c *inlineContext) Value(key any) any {
	if own, _ := c.made(); own != nil {
		return own.Value(key)
	}
	return c.Context.Value(key)
}
