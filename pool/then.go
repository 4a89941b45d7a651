package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// Then runs fn on the result of f when f has ended, as a task at a pool, a lane or a submitter.
// It occupies no worker until then. If f fails, panics or is canceled, fn does not run, and
// the new future has the same error. Canceling the new future stops waiting for f but does
// not cancel f; if fn has been submitted, it cancels that task. If the task of fn is not
// accepted, the new future has that error; if the queue is full and its rule is Block, the
// task waits for a place. Then costs about a kilobyte.
//
// Then returns an error if fn is nil or the result of f was taken.
func Then[T, U any](f Future[T], on Target, fn func(context.Context, T) (U, error)) (Future[U], error) {
	if fn == nil {
		return Future[U]{}, errNil
	}
	if f.task == nil || !f.task.keep(f.gen) {
		return Future[U]{}, ErrTaken
	}
	l := &link[T, U]{source: f, fn: fn}
	l.self, l.target = l, on.at()
	l.word.Store(isKept | uint64(TaskRunning))
	f.task.then(l.carryOn)
	return Future[U]{&l.result, 0}, nil
}

// link is the future of Then. To its holders it looks like a task that runs from the
// beginning and is never reused.
type link[T, U any] struct {
	result[U]
	source Future[T]
	fn     func(context.Context, T) (U, error)

	mu       sync.Mutex
	canceled bool // mu guards the fields below
	over     bool // it has its outcome, or is about to get it
	next     Future[U]
}

// carryOn is called when the source has ended.
func (l *link[T, U]) carryOn() {
	value, err := l.source.task.read()
	if err != nil {
		l.close(err)
		return
	}
	j := &job[T, U]{fn: l.fn, arg: value}
	j.self, j.target = j, l.target
	j.submitted()
	j.word.Or(isKept)
	j.own = l.target.own(context.Background(), &j.head) // so that Cancel can end a running fn
	it := j.own
	q := l.target.queueOf()
	j.queue = q
	if l.target.try(q, it) {
		l.follow(j)
		return
	}
	go func() { // ends when the queue has a place or refuses the task, at the latest when the pool ends
		if err := l.target.put(context.Background(), &j.head, it); err != nil {
			l.close(err)
			return
		}
		l.follow(j)
	}()
}

// follow waits for the task of fn.
func (l *link[T, U]) follow(j *job[T, U]) {
	next := Future[U]{&j.result, 0}
	l.mu.Lock()
	l.next = next
	canceled := l.canceled
	l.mu.Unlock()
	if canceled {
		next.Cancel(context.Canceled) // the outcome has no more readers
	}
	j.then(func() {
		value, err := j.read()
		l.end(value, err)
	})
}

func (l *link[T, U]) close(err error) {
	var none U
	l.end(none, err)
}

// end publishes the outcome, unless the link already has one.
func (l *link[T, U]) end(value U, err error) {
	l.mu.Lock()
	over := l.over
	l.over = true
	l.mu.Unlock()
	if !over {
		l.value, l.err = value, err
		l.publish(0, TaskRunning)
	}
}

// revokeFor implements Cancel.
func (l *link[T, U]) revokeFor(cause error) {
	l.mu.Lock()
	l.canceled = true
	next := l.next
	l.mu.Unlock()
	if next.task != nil {
		next.Cancel(cause)
		return
	}
	l.close(fmt.Errorf("task %q: %w", l.target.kind.name, cause))
}

// A link never waits in a queue. These methods only complete the interface owner.
func (l *link[T, U]) run(*worker)           {}
func (l *link[T, U]) execute(*worker)       {}
func (l *link[T, U]) crash(*worker, thrown) {}
func (l *link[T, U]) fail(error)            {}
func (l *link[T, U]) reuse()                {}
func (l *link[T, U]) stale() bool           { return false }
func (l *link[T, U]) named() *kind          { return l.target.kind }

// WhenAll waits for all futures and returns their values in the same order. If some fail,
// the error is a [Failures], indexed like futures, and their values are zero. If ctx ends,
// the futures that have not ended get its cause as their error, but their tasks keep running.
func WhenAll[T any](ctx context.Context, futures ...Future[T]) ([]T, error) {
	values := make([]T, len(futures))
	var failures Failures
	for i, f := range futures {
		value, err := f.Wait(ctx)
		if err != nil {
			if failures == nil {
				failures = make(Failures, len(futures))
			}
			failures[i] = err
		}
		values[i] = value
	}
	if failures != nil {
		return values, failures
	}
	return values, nil
}

// ErrNoFutures is returned by WhenAny without futures.
var ErrNoFutures = errors.New("there are no futures to wait for: give at least one")

// mostCases is how many futures WhenAny can wait for: the limit of reflect.Select, less one
// case for the context.
const mostCases = 65535

// WhenAny waits until one of the futures has ended, with any outcome, and returns its index
// and outcome; the others keep running. If several have ended, it returns the first in order. If
// ctx ends, it returns -1 and the cause. Its time and memory are proportional to the number
// of futures, which may be up to 65535.
func WhenAny[T any](ctx context.Context, futures ...Future[T]) (int, T, error) {
	var none T
	switch n := len(futures); {
	case n == 0:
		return -1, none, ErrNoFutures
	case n > mostCases:
		return -1, none, fmt.Errorf("WhenAny got %d futures: use at most %d", n, mostCases)
	}
	cases := make([]reflect.SelectCase, 0, len(futures)+1)
	for i, f := range futures {
		if f.task == nil || f.task.isDone(f.gen) {
			value, err := f.Wait(ctx)
			return i, value, err
		}
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(f.Done())})
	}
	cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())})
	p := futures[0].task.target.pool
	if w, _ := ctx.Value(workerKey{}).(*worker); w != nil && w.pool == p {
		w.waits() // it occupies a worker while it waits
		p.call()
	}
	i, _, _ := reflect.Select(cases)
	if i == len(futures) {
		return -1, none, context.Cause(ctx)
	}
	value, err := futures[i].Wait(context.WithoutCancel(ctx))
	return i, value, err
}
