package bullpen

import (
	"context"
	"errors"
	"fmt"
)

// Execute hands t to e and waits for its outcome. When ctx ends the task is
// canceled, and Execute returns once it has ended. An executor that has a
// faster way of its own (a method Execute) is asked for it.
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

// Handle stands for a task that has been accepted. It is safe for concurrent
// use.
type Handle struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	result Result // written before done is closed
	err    error  // the same
}

// Start hands t to e and returns a handle to wait on. The task runs until it
// ends, ctx ends or the handle is canceled.
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

// Done is closed when the task has its outcome.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Result waits for the outcome, however long it takes, and returns it. It may
// be called any number of times.
func (h *Handle) Result() (Result, error) {
	<-h.done
	return h.result, h.err
}

// Wait waits for the outcome until ctx ends. The end of ctx ends the waiting,
// not the task: then the error is the cause of ctx, wrapped in ErrWaiting.
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

// ErrWaiting says that a call of [Handle.Wait] gave up while its task goes on.
var ErrWaiting = errors.New("gave up waiting; the task goes on")

// Cancel takes the task back, with a cause (nil means context.Canceled). A task
// that has not started never starts; one that runs is asked to end, and killed
// where the executor can. Cancel does not wait.
func (h *Handle) Cancel(cause error) { h.cancel(cause) }
