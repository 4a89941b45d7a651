package pool

import (
	"context"
	"fmt"
	"sync"
)

// Future is the future result of a task. It is a value: its copies refer to the same task.
// Its methods are safe for concurrent use. The zero Future behaves as one whose result was
// taken.
type Future[T any] struct {
	task *result[T]
	gen  uint64
}

// Wait waits until the task has ended or ctx ends; the end of ctx does not affect the task.
// The error is a *bullpen.TaskError if the task started, and another error if it did not
// start or ctx ended. Wait may be called many times.
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

// Take is a Wait after which the future and all its copies are no longer usable: the next
// task reuses their memory, so a task allocates nothing. If ctx ends first, the future
// stays usable.
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

// read returns the outcome of a task that is over and kept.
func (r *result[R]) read() (R, error) {
	if stateOf(r.word.Load()) == TaskLost {
		var none R
		return none, r.verdict()
	}
	return r.value, r.err
}

// take returns the outcome of a task that is over, and releases the object. If mine is
// true, the caller holds the flag hasWaiter.
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
			return r.read() // others hold it: the garbage collector frees it
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

// leaveToQueue frees a task that its queue still holds, and leaves it to the queue to
// release the object. It returns false if the queue has let go in the meantime.
func (r *result[R]) leaveToQueue(next uint64) bool {
	return r.word.CompareAndSwap(next|uint64(TaskTaken), next|uint64(TaskFree))
}

// Done returns a channel that is closed when the task has ended. It is also closed if the
// result was taken.
func (f Future[T]) Done() <-chan struct{} {
	if f.task == nil || !f.task.keep(f.gen) {
		return closedChannel()
	}
	if own := f.task.own; own != nil && own.parent.Done() != nil {
		own.Done() // from now on the task notices the end of the caller's context immediately
	}
	return f.task.ended()
}

var closedChannel = sync.OnceValue(func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
})

// Cancel cancels the task; a nil cause means context.Canceled. A task that waits ends
// immediately, with an error that wraps cause and means that it never started. If the task
// runs, its context ends, and the task gets its outcome when its body returns or after the
// pool's grace. A body without its own context (no timeout, submitted with a context that
// cannot end) keeps running.
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
	f.task.revoke(f.gen, fmt.Errorf("task %q: %w", f.task.target.kind.name, cause))
}
