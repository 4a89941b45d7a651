package pool

import (
	"context"
	"fmt"
	"sync"
)

// Future is a task's result to come. It is a value: copies mean the same task.
// Its methods are safe for concurrent use. The zero Future has been taken.
type Future[T any] struct {
	task *result[T]
	gen  uint64
}

// Wait waits until the task has ended, or until ctx ends, which leaves the task
// alone. The error is a *bullpen.TaskError if the task started, and another one
// if it did not, or if ctx ended. Wait may be called many times.
func (f Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if f.task == nil || !f.task.keep(f.gen) {
		return none, ErrTaken
	}
	mine, err := f.task.await(ctx, f.gen)
	if mine {
		f.task.word.And(^uint64(hasWaiter))
	}
	if err != nil {
		return none, err
	}
	return f.task.read()
}

// Take is a Wait after which the future, and every copy of it, is spent: its
// memory serves the next task, so that nothing is allocated for one. When ctx
// ends first the future is as before.
func (f Future[T]) Take(ctx context.Context) (T, error) {
	if f.task == nil {
		var none T
		return none, ErrTaken
	}
	mine, err := f.task.await(ctx, f.gen)
	if err != nil {
		var none T
		return none, err
	}
	return f.task.take(f.gen, mine)
}

// read gives the outcome of a task that is over and kept.
func (r *result[R]) read() (R, error) {
	if stateOf(r.word.Load()) == TaskLost {
		var none R
		return none, r.verdict()
	}
	return r.value, r.err
}

// take gives the outcome of a task that is over, and the object back. With mine
// the flag hasWaiter is the caller's.
func (r *result[R]) take(gen uint64, mine bool) (R, error) {
	var none R
	for {
		word := r.word.Load()
		switch {
		case genOf(word) != gen:
			return none, ErrTaken
		case word&isKept != 0:
			if mine {
				r.word.And(^uint64(hasWaiter))
			}
			return r.read() // others hold it: the collector frees it
		case word&hasWaiter != 0 && !mine:
			if !r.keep(gen) {
				return none, ErrTaken
			}
			continue
		}
		next := (gen+1)*generation | word&inQueue
		if r.word.CompareAndSwap(word, next|uint64(TaskTaken)) {
			value, err := r.value, r.err
			if next&inQueue == 0 || !r.leaveToQueue(next) {
				r.self.reuse()
			}
			return value, err
		}
	}
}

// leaveToQueue frees a task that its queue still holds, and leaves it to the
// queue to give the object back; false when the queue has let go meanwhile.
func (r *result[R]) leaveToQueue(next uint64) bool {
	return r.word.CompareAndSwap(next|uint64(TaskTaken), next|uint64(TaskFree))
}

// Done returns a channel that is closed when the task has ended. For a future
// that was taken it is closed.
func (f Future[T]) Done() <-chan struct{} {
	if f.task == nil || !f.task.keep(f.gen) {
		return closedChannel()
	}
	if own := f.task.own; own != nil && own.parent.Done() != nil {
		own.Done() // from now on the end of the caller's context is seen at once
	}
	return f.task.ended()
}

var closedChannel = sync.OnceValue(func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
})

// Cancel takes the task back. If it waits, it ends at once with an error that
// wraps cause and says that it never started. If it runs, its context ends, and
// the task has its outcome when the body returns, or after the pool's grace; a
// body without a context of its own (no timeout, submitted with a context that
// cannot end) goes on. cause nil means context.Canceled.
func (f Future[T]) Cancel(cause error) {
	if f.task == nil || !f.task.keep(f.gen) {
		return
	}
	if cause == nil {
		cause = context.Canceled
	}
	if l, ok := f.task.self.(interface{ revokeFor(cause error) }); ok {
		l.revokeFor(cause)
		return
	}
	if own := f.task.own; own != nil {
		own.cancel(context.Canceled, cause)
		return
	}
	f.task.revoke(f.gen, fmt.Errorf("task %q: %w", f.task.place.kind.name, cause))
}
