package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/bullpen-run/bullpen"
)

// result is a task and its result.
type result[R any] struct {
	head
	value R
	err   error
}

// settle writes the outcome of a task without a result.
func (r *result[R]) settle(err error) {
	var zero R
	r.value, r.err = zero, err
}

// job is a task of a typed function. Its object is reused if the only holder has released
// it (Take, Call).
type job[A, R any] struct {
	result[R]
	fn   func(context.Context, A) (R, error)
	arg  A
	home *Func[A, R] // Func that reuses the object, nil if none
}

func (j *job[A, R]) run(w *worker) {
	if j.begin() {
		j.execute(w)
	}
}

func (j *job[A, R]) execute(w *worker) {
	w.gen = genOf(j.word.Load())
	gen, own := w.gen, j.own
	ctx := context.Context(w.ctx)
	if own != nil {
		own.start(w)
		ctx = own
	}
	value, err := j.fn(ctx, j.arg)
	if err == nil {
		j.value, j.err = value, nil
	} else {
		j.settle(j.judge(ctx, err))
	}
	j.finish(w, gen)
}

// finish publishes the outcome of the body. It counts the outcome first, so that a caller
// that has the result also finds it counted. In the rare case that the task was answered
// before, it takes the count back.
func (j *job[A, R]) finish(w *worker, gen uint64) {
	count := &w.home.of(j.target.kind).outcomes[bullpen.OK]
	if j.err != nil {
		count = w.home.count(j.target.kind, j.err)
	}
	count.Add(1)
	own := j.own
	if own == nil && j.target.pool.config.Spin {
		w.announce()
	}
	ok, waited := j.publish(gen, TaskRunning)
	if own != nil {
		own.stop()
	}
	if !ok {
		count.Add(^uint64(0))
		w.late()
	}
	if waited {
		w.spun = true
	}
}

// judge returns the outcome for an error that a body returned.
func (h *head) judge(ctx context.Context, err error) error { return judge(ctx, h.target.kind, err) }

func judge(ctx context.Context, k *kind, err error) error {
	outcome := bullpen.Failed
	if errors.Is(err, bullpen.ErrOutput) {
		return taskError(k.name, bullpen.Output, err)
	}
	if ended := ctx.Err(); ended != nil {
		outcome = bullpen.Canceled
		if errors.Is(ended, context.DeadlineExceeded) {
			outcome = bullpen.Timeout
		}
	}
	te := taskError(k.name, outcome, err)
	if outcome == bullpen.Canceled {
		te.Err = withCause(ctx, err)
	}
	return te
}

// withCause adds bullpen.ErrClosed to the error of a body, for errors.Is, if its context
// ended because a pool was closed.
func withCause(ctx context.Context, err error) error {
	var cause error
	switch c := ctx.(type) {
	case *taskContext:
		cause = c.cause()
	case *workerContext:
		cause = c.worker.pool.closedError() // nothing else ends it
	default:
		cause = context.Cause(ctx)
	}
	if !errors.Is(cause, bullpen.ErrClosed) || errors.Is(err, bullpen.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

func taskError(name string, outcome bullpen.Outcome, err error) *bullpen.TaskError {
	return &bullpen.TaskError{
		Outcome: outcome, Task: name, Type: typeName(err), Message: err.Error(),
		Retryable: bullpen.Retryable(err), ExitCode: -1, Err: err,
	}
}

// typeName returns the type of an error, or "" for types that carry no information.
func typeName(err error) string {
	switch name := reflect.TypeOf(err).String(); name {
	case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*bullpen.failure":
		return ""
	default:
		return name
	}
}

// thrown describes a body that panicked or called Goexit.
type thrown struct {
	value  any // of panic
	goexit bool
	stack  string
}

func (t thrown) err(name string) *bullpen.TaskError {
	cause := fmt.Errorf("panic: %v", t.value)
	if err, ok := t.value.(error); ok {
		cause = fmt.Errorf("panic: %w", err)
	}
	if t.goexit {
		cause = errGoexit
	}
	e := taskError(name, bullpen.Panic, cause)
	e.Stack = t.stack
	return e
}

var errGoexit = errors.New("the task called runtime.Goexit")

func (j *job[A, R]) crash(w *worker, t thrown) {
	j.settle(t.err(j.target.kind.name))
	j.finish(w, w.gen)
}

// rescue ends a task that panicked or called Goexit. It reports whether the worker goes on
// in this goroutine.
func (w *worker) rescue(value any) (again bool) {
	w.inTask = false
	first, _ := w.held()
	it := w.items[first-1]
	t := thrown{value: value, goexit: value == nil, stack: string(debug.Stack())}
	k := w.pool.kindOf(it)
	it.crash(w, t)
	w.emit(Event{Kind: Panicked, Task: k.name, Text: t.err(k.name).Message, Stack: t.stack})
	w.home.of(k).run.Add(time.Duration(w.pool.now()-w.exact), 1)
	w.leaveLane()
	stays := w.flags.Load() == 0 || w.unflag()
	if !t.goexit {
		return stays
	}
	if stays {
		go w.main() // replaces this goroutine, which ends now
	} else {
		go w.leave() // on behalf of main, which ends now
	}
	return false
}

// late records the end of a body whose task was answered before. Whoever answered it holds
// the locks until the flags of the worker are set, so late waits for them.
func (w *worker) late() {
	w.pool.counters.late.Add(1)
	if c := w.context.Load(); c != nil {
		w.emit(Event{Kind: Returned, Task: c.named().name})
	}
	w.pool.freeze()
	w.pool.thaw()
}

func (j *job[A, R]) fail(err error) { j.dropped(err) }

func (j *job[A, R]) stale() bool { return stateOf(j.word.Load()) != TaskQueued }

func (j *job[A, R]) named() *kind { return j.target.kind }

func (j *job[A, R]) reuse() {
	var zero A
	var none R
	j.arg, j.value, j.err, j.own, j.queue = zero, none, nil, nil, nil
	if j.home != nil {
		j.home.free.Put(j)
	}
}
