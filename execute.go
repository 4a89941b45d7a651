package bullpen

import (
	"context"
	"errors"
	"fmt"
)

// Execute runs t on e and returns its result. If ctx ends, Execute cancels the task and
// returns when the task has ended. If e has a method Execute, Execute calls it.
func Execute(ctx context.Context, e Executor, t Task) (Result, error) {
	if fast, ok := e.(interface {
		Execute(ctx context.Context, t Task) (Result, error)
	}); ok {
		return fast.Execute(ctx, t)
	}
	h, err := Start(ctx, e, t)
	if err != nil {
		return Result{}, err
	}
	return h.Result()
}

// Handle represents an accepted task. It is safe for concurrent use.
type Handle struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	result Result // written before done is closed
	err    error  // written before done is closed
}

// Start submits t to e and returns a handle to wait on. The task runs until it ends, ctx
// ends or the handle is canceled.
func Start(ctx context.Context, e Executor, t Task) (*Handle, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &Handle{cancel: cancel, done: make(chan struct{})}
	err := e.Submit(ctx, t, func(r Result, err error) {
		h.result, h.err = r, err
		close(h.done)
		cancel(nil)
	})
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return h, nil
}

// Done returns a channel that is closed when the task has its outcome.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Result waits for the outcome without a time limit and returns it. It may be called any
// number of times.
func (h *Handle) Result() (Result, error) {
	<-h.done
	return h.result, h.err
}

// Wait waits for the outcome until ctx ends. If ctx ends first, the task keeps running, and Wait
// returns an error that wraps [ErrWaiting] and the cause of ctx.
func (h *Handle) Wait(ctx context.Context) (Result, error) {
	select {
	case <-h.done:
		return h.result, h.err
	default:
	}
	select {
	case <-h.done:
		return h.result, h.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%w: %w", ErrWaiting, context.Cause(ctx))
	}
}

// ErrWaiting means that [Handle.Wait] gave up while the task keeps running.
var ErrWaiting = errors.New("gave up waiting; the task continues")

// Cancel cancels the task with a cause; nil means context.Canceled. A task that has not
// started never starts. A running task is asked to end, and killed where the executor can
// do so. Cancel does not wait.
func (h *Handle) Cancel(cause error) { h.cancel(cause) }
