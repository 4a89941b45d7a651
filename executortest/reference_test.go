package executortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// reference is the smallest executor that keeps the whole contract: a goroutine
// for each running task and one lock over everything.
type reference struct {
	handlers map[string]bullpen.Handler
	options  Options
	mortal   bool // its goroutines play workers that can be killed and can exit

	mu      sync.Mutex
	level   int               // how it ends: 0 not yet, or one of the levels; guarded by mu
	queue   []*job            // guarded by mu
	running map[*job]struct{} // guarded by mu
	free    int               // places for running tasks; guarded by mu
	open    int               // accepted and not answered; guarded by mu
	room    bullpen.RoomSignal
	aborted [closing]int  // tasks that were to be finished by an ending of this level, and were not; guarded by mu
	change  chan struct{} // closed and made anew whenever any of these changes; guarded by mu
	stuck   chan struct{} // closed when the grace after Close is over
}

const (
	draining = 1 + iota
	stopping
	closing
)

// job is one accepted task.
type job struct {
	task    bullpen.Task
	ctx     context.Context //nolint:containedctx // the task's own
	cancel  context.CancelCauseFunc
	done    func(bullpen.Result, error)
	unwatch func() bool // ends the watch for the end of ctx while queued
	given   time.Time
	closed  bool // Close asked it to end; guarded by reference.mu
	nested  bool // it runs beside its parent and has no place of its own
	result  bullpen.Result
	err     error
}

func newReference(handlers map[string]bullpen.Handler, o Options) *reference {
	return &reference{
		handlers: handlers, options: o, free: o.Workers, running: map[*job]struct{}{},
		change: make(chan struct{}), stuck: make(chan struct{}),
	}
}

// newMortal makes a reference whose goroutines play workers.
func newMortal(o Options) *reference {
	handlers := Handlers()
	handlers["exit"] = func(context.Context, bullpen.Task) ([]byte, error) { return nil, errExit }
	e := newReference(handlers, o)
	e.mortal = true
	return e
}

// What ends a goroutine that plays a worker.
var (
	errKilled = errors.New("killed")
	errExit   = errors.New("exit status 3")
	// errTimeout is the cause of a run time that is over.
	errTimeout = errors.New("run-time limit reached")
)

// kill ends all running tasks as if their workers had been killed.
func (e *reference) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.running {
		j.cancel(errKilled)
	}
}

// limited is a context with the deadline of a run time.
type limited struct {
	context.Context //nolint:containedctx // it is one itself

	until time.Time
}

func (l limited) Deadline() (time.Time, bool) { return l.until, true }

// statsOf is the key under which a handler finds the statistics of its task.
type statsOf struct{}

// inside is the key under which a task's context has its executor.
type inside struct{}

func (e *reference) Guarantees() bullpen.Guarantees {
	return bullpen.Guarantees{Exact: true, CrashProof: e.mortal, Notes: []string{"goroutines cannot be ended by force"}}
}

func (e *reference) Capacity() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.level > 0 {
		return 0
	}
	return e.free
}

func (e *reference) Room() <-chan struct{} {
	c := e.room.Next()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.free > 0 || e.level > 0 {
		e.room.Notify()
	}
	return c
}

func (e *reference) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if err := t.Limits.Check(); err != nil {
		return fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
	}
	if t.Limits.Memory > 0 || t.Limits.CPU > 0 {
		return fmt.Errorf("%w: memory and CPU are not bounded here", bullpen.ErrRefused)
	}
	if e.handlers[t.Name] == nil {
		return fmt.Errorf("%w %q", bullpen.ErrUnknownTask, t.Name)
	}
	j := &job{task: t, done: done, given: time.Now(), nested: ctx.Value(inside{}) == e}
	j.ctx, j.cancel = context.WithCancelCause(context.WithValue(ctx, inside{}, e))
	for {
		change, err := e.offer(ctx, j)
		if change == nil {
			if err != nil {
				j.cancel(nil)
			}
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
		}
	}
}

// offer takes a job or refuses it; a channel says that there is no room and when
// to try again.
func (e *reference) offer(ctx context.Context, j *job) (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case e.level > draining, e.level > 0 && !j.nested:
		return nil, bullpen.ErrClosed
	case j.nested || e.free > 0 && len(e.queue) == 0:
		e.start(j)
	case len(e.queue) < e.options.Queue:
		e.enqueue(j)
	case e.options.Overflow == Reject:
		return nil, bullpen.ErrOverloaded
	case e.options.Overflow == DropOldest:
		e.drop(e.queue[0], bullpen.ErrOverloaded)
		e.enqueue(j)
	default:
		return e.change, nil
	}
	e.open++
	return nil, nil
}

func (e *reference) changed() {
	if e.free > 0 || e.level > 0 {
		e.room.Notify()
	}
	close(e.change)
	e.change = make(chan struct{})
}

func (e *reference) enqueue(j *job) {
	e.queue = append(e.queue, j)
	j.unwatch = context.AfterFunc(j.ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.drop(j, context.Cause(j.ctx))
	})
}

// drop takes a job out of the queue, if it is there, and answers it.
func (e *reference) drop(j *job, why error) {
	at := slices.Index(e.queue, j)
	if at < 0 {
		return
	}
	e.queue = slices.Delete(e.queue, at, at+1)
	j.unwatch()
	j.err = why
	go e.answer(j) // ends with the caller's done; the endings wait for it
}

// start gives a job a place and runs it.
func (e *reference) start(j *job) {
	if !j.nested {
		e.free--
	}
	e.running[j] = struct{}{}
	go func() { // ends with the handler, even by Goexit; the endings wait for it
		defer e.finish(j)
		e.run(j)
	}()
}

func (e *reference) run(j *job) {
	begun := time.Now()
	ctx := j.ctx
	if d := j.task.Limits.Timeout; d > 0 {
		// Not context.WithTimeout, which does nothing when the caller's context says
		// that it ends earlier, whatever became of the clock since.
		timer := time.AfterFunc(d, func() { j.cancel(errTimeout) })
		defer timer.Stop()
		ctx = limited{ctx, begun.Add(d)}
	}
	var payload []byte
	var err error
	returned := false
	defer func() {
		if thrown := recover(); !returned {
			err = j.fault(bullpen.Panic, fmt.Errorf("panic: %v", thrown))
		} else {
			payload, err = j.judge(ctx, payload, err)
		}
		j.err = err
		j.result.Payload, j.result.Stats.Waited, j.result.Stats.Ran = payload, begun.Sub(j.given), time.Since(begun)
	}()
	payload, err = e.handlers[j.task.Name](context.WithValue(ctx, statsOf{}, &j.result.Stats), j.task)
	returned = true
}

// judge makes the outcome of what a handler returned.
func (j *job) judge(ctx context.Context, payload []byte, err error) ([]byte, error) {
	var ended *bullpen.TaskError
	switch bound := j.task.Limits.Output; {
	case err == nil && bound > 0 && len(payload) > bound:
		return nil, j.fault(bullpen.Output, fmt.Errorf("%d bytes, more than %d", len(payload), bound))
	case err == nil:
		return payload, nil
	case errors.Is(err, bullpen.ErrOutput):
		return nil, j.fault(bullpen.Output, err)
	case errors.Is(err, errExit):
		return nil, &bullpen.TaskError{Outcome: bullpen.Crashed, Task: j.task.Name, ID: j.task.ID, ExitCode: 3, Err: err}
	case errors.Is(context.Cause(ctx), errKilled):
		return nil, &bullpen.TaskError{Outcome: bullpen.Crashed, Task: j.task.Name, ID: j.task.ID, ExitCode: -1, Signal: "killed"}
	case errors.As(err, &ended): // by a worker, which knows how
		ended.Task, ended.ID = j.task.Name, j.task.ID
		return nil, ended
	case errors.Is(context.Cause(ctx), errTimeout), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, j.fault(bullpen.Timeout, err)
	case ctx.Err() != nil:
		return nil, j.fault(bullpen.Canceled, err)
	default:
		return nil, j.fault(bullpen.Failed, err)
	}
}

func (j *job) fault(o bullpen.Outcome, err error) error {
	return &bullpen.TaskError{
		Outcome: o, Task: j.task.Name, ID: j.task.ID, Message: err.Error(), Retryable: bullpen.Retryable(err), ExitCode: -1, Err: err,
	}
}

func (e *reference) finish(j *job) {
	e.mu.Lock()
	delete(e.running, j)
	if j.closed && j.err != nil {
		e.aborted[draining]++
		e.aborted[stopping]++
	}
	if !j.nested {
		e.free++
	}
	if len(e.queue) > 0 && e.free > 0 {
		next := e.queue[0]
		e.queue = slices.Delete(e.queue, 0, 1)
		next.unwatch()
		e.start(next)
	}
	e.changed()
	e.mu.Unlock()
	e.answer(j)
}

func (e *reference) answer(j *job) {
	j.cancel(nil)
	j.done(j.result, j.err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
	e.changed()
}

func (e *reference) Drain(ctx context.Context) error { return e.keep(ctx, draining) }
func (e *reference) Stop(ctx context.Context) error  { return e.keep(ctx, stopping) }
func (e *reference) Close() error                    { return e.end(context.Background(), closing) }

// keep ends the executor, and says so when a stronger ending aborted what this one
// was to finish.
func (e *reference) keep(ctx context.Context, level int) error {
	before := e.abortedFor(level)
	err := e.end(ctx, level)
	if e.abortedFor(level) == before {
		return err
	}
	why := context.Cause(ctx)
	if why == nil {
		why = bullpen.ErrClosed
	}
	return errors.Join(fmt.Errorf("tasks were aborted: %w", why), err)
}

func (e *reference) abortedFor(level int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.aborted[level]
}

func (e *reference) end(ctx context.Context, level int) error {
	e.raise(level)
	for {
		e.mu.Lock()
		open, change := e.open, e.change
		e.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-change:
		case <-e.stuck:
			return fmt.Errorf("%d tasks ignore their context", open)
		case <-ctx.Done():
			return e.end(context.Background(), closing)
		}
	}
}

// raise makes the ending at least as strong as level.
func (e *reference) raise(level int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if level <= e.level {
		return
	}
	e.level = level
	e.changed()
	if level >= stopping {
		for len(e.queue) > 0 {
			e.aborted[draining]++
			e.drop(e.queue[0], bullpen.ErrClosed)
		}
	}
	if level == closing {
		for j := range e.running {
			j.closed = true
			j.cancel(bullpen.ErrClosed)
		}
		time.AfterFunc(e.options.Grace, func() { close(e.stuck) })
	}
}
