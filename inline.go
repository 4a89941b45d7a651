package bullpen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
)

// InlineConfig configures an [Inline].
type InlineConfig struct {
	// Handlers are the tasks that it runs, by name.
	Handlers map[string]Handler
	// Limits are the Timeout and the Output of tasks that have none of their own.
	Limits Limits
	// CloseGrace is how long Close waits for the tasks that it has canceled. Default 5 s.
	CloseGrace time.Duration
}

// Inline is an [Executor] that runs each task in the goroutine of its caller: a direct call
// that keeps the contract. Use it in tests, and for handlers that need no bound on how many
// run at the same time. Configuration moves the same handlers to a pool or to processes.
//
// Submit and Execute return when the task has ended. As many tasks run as there are callers,
// so no task ever waits. A handler that panics has the outcome [Panic]; so has one that calls
// runtime.Goexit, which also ends the goroutine of the caller: Submit then calls done and
// does not return.
//
// The context of a handler is that of its caller. It also ends at the time limit, and when
// the executor is closed. A handler that ignores its context cannot be stopped. If it returns
// after its time limit, its result is dropped, and the outcome is [Timeout].
//
// A task without a time limit allocates nothing if its handler does not wait for the end of
// its context, and its caller's context is that of the task before.
type Inline struct {
	handlers map[string]Handler
	limits   Limits
	grace    time.Duration
	events   feed.Source[InlineEvent]
	contexts sync.Pool // of *inlineContext, to be used again by tasks with the same caller's context

	mu      sync.Mutex
	stats   InlineStats    // guarded by mu
	running *inlineContext // a list; guarded by mu
	ending  InlineState    // guarded by mu
	aborted int            // tasks that Close ended; guarded by mu
	idle    chan struct{}  // closed when new tasks are refused and none runs; guarded by mu
}

// InlineStats is a snapshot of an [Inline].
type InlineStats struct {
	State InlineState
	// Running is the number of tasks that run.
	Running int
	// Accepted counts the tasks that were accepted, Refused those that were not, and
	// Outcomes those that have ended, by outcome.
	Accepted, Refused uint64
	Outcomes          [OutcomeCount]uint64
	// RunTime has the run times of the tasks that have ended.
	RunTime Histogram
}

var (
	_ RoomNotifier = (*Inline)(nil)
	_ Checker      = (*Inline)(nil)
)

const defaultInlineGrace = 5 * time.Second

// NewInline checks c and returns a new executor. It starts no goroutine, so the caller may
// also drop it without ending it.
func NewInline(c InlineConfig) (*Inline, error) {
	err := c.Limits.Check()
	if c.Limits.Memory > 0 || c.Limits.CPU > 0 {
		err = errors.Join(err, errInlineLimits)
	}
	for name, h := range c.Handlers {
		if h == nil {
			err = errors.Join(err, fmt.Errorf("the handler of %q is nil", name))
		}
	}
	if c.CloseGrace < 0 {
		err = errors.Join(err, fmt.Errorf("CloseGrace is %v: use a positive duration, or 0 for %v", c.CloseGrace, defaultInlineGrace))
	}
	if err != nil {
		return nil, fmt.Errorf("inline executor: %w", err)
	}
	return &Inline{
		handlers: maps.Clone(c.Handlers), limits: c.Limits, grace: cmp.Or(c.CloseGrace, defaultInlineGrace), idle: make(chan struct{}),
	}, nil
}

var errInlineLimits = errors.New("memory and processor time of a direct call cannot be limited: use a process pool")

// Check reports why t would be refused; see [Checker].
func (e *Inline) Check(t Task) error {
	_, err := e.serves(&t)
	return err
}

func (e *Inline) serves(t *Task) (Handler, error) {
	h := e.handlers[t.Name]
	if h == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknownTask, t.Name)
	}
	if t.Limits == (Limits{}) {
		return h, nil
	}
	err := t.Limits.Check()
	if t.Limits.Memory > 0 || t.Limits.CPU > 0 {
		err = errors.Join(err, errInlineLimits)
	}
	if err != nil {
		return nil, fmt.Errorf("task %q: %w: %w", t.Name, ErrRefused, err)
	}
	return h, nil
}

// Submit runs t, calls done with its outcome, and returns.
func (e *Inline) Submit(ctx context.Context, t Task, done func(Result, error)) error {
	h, err := e.serves(&t)
	switch {
	case err != nil:
	case done == nil:
		err = errors.New("done is nil: pass a function that receives the outcome")
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	c, err := e.begin(ctx, &t, err)
	if err != nil {
		return err
	}
	var r Result
	defer e.leave(c) // deferred calls run even when the handler calls Goexit, or done panics
	defer func() { done(r, err) }()
	e.run(c, h, &t, &r, &err) //nolint:contextcheck // c is made of ctx
	return nil
}

// Execute runs t and returns its result.
func (e *Inline) Execute(ctx context.Context, t Task) (r Result, err error) {
	refused := e.Submit(ctx, t, func(result Result, fault error) { r, err = result, fault })
	if refused != nil {
		return Result{}, refused
	}
	return r, err
}

// begin accepts a task, unless fault is a reason to refuse it, and returns its context.
func (e *Inline) begin(ctx context.Context, t *Task, fault error) (*inlineContext, error) {
	var c *inlineContext
	if fault == nil {
		c = e.context(ctx, cmp.Or(t.Limits.Timeout, e.limits.Timeout))
		c.name, c.id = t.Name, t.ID
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if fault == nil && e.ending != InlineOpen {
		fault = ErrClosed
	}
	if fault != nil {
		e.stats.Refused++
		return nil, fault
	}
	e.stats.Accepted++
	e.stats.Running++
	if c.next = e.running; c.next != nil {
		c.next.before = c
	}
	e.running = c
	return c, nil
}

// context returns a context for a handler.
func (e *Inline) context(ctx context.Context, limit time.Duration) *inlineContext {
	if limit > 0 {
		return &inlineContext{Context: ctx, executor: e, until: time.Now().Add(limit)}
	}
	c, _ := e.contexts.Get().(*inlineContext)
	if c == nil || !sameContext(c.Context, ctx) {
		c = &inlineContext{Context: ctx, executor: e}
	}
	return c
}

// sameContext reports whether a and b are the same. It returns false for types that cannot be
// compared.
func sameContext(a, b context.Context) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// run runs a handler and sets the outcome, also if the handler does not return.
func (e *Inline) run(c *inlineContext, h Handler, t *Task, r *Result, err *error) {
	begun, returned := time.Now(), false
	defer func() {
		ended := time.Now()
		r.Stats.Ran = ended.Sub(begun)
		if !returned {
			*err = inlinePanic(t, recover())
		} else if *err = e.judge(c, t, len(r.Payload), *err, ended); *err != nil {
			r.Payload = nil
		}
		e.count(c, t, r.Stats.Ran, *err)
	}()
	r.Payload, *err = h(c, *t)
	returned = true
}

// judge returns the outcome of a task whose handler has returned size bytes, or err.
func (e *Inline) judge(c *inlineContext, t *Task, size int, err error, ended time.Time) error {
	most := cmp.Or(t.Limits.Output, e.limits.Output)
	switch {
	case !c.until.IsZero() && ended.After(c.until):
		return inlineError(t, Timeout, cmp.Or(err, context.DeadlineExceeded))
	case err == nil && most > 0 && size > most:
		return inlineError(t, Output, fmt.Errorf("%w: it has %d bytes, more than %d", ErrOutput, size, most))
	case err == nil:
		return nil
	case errors.Is(err, ErrOutput):
		return inlineError(t, Output, err)
	}
	o := Failed
	switch over := cmp.Or(c.Err(), c.Context.Err()); {
	case errors.Is(over, context.DeadlineExceeded):
		o = Timeout
	case over != nil:
		o = Canceled
	}
	return inlineError(t, o, err)
}

func inlineError(t *Task, o Outcome, err error) *TaskError {
	return &TaskError{Outcome: o, Task: t.Name, ID: t.ID, Message: err.Error(), Retryable: Retryable(err), ExitCode: -1, Err: err}
}

// inlinePanic is the outcome of a handler that threw a value, or nil: then it called
// runtime.Goexit.
func inlinePanic(t *Task, thrown any) *TaskError {
	err, is := thrown.(error)
	switch {
	case thrown == nil:
		err = errors.New("the task called runtime.Goexit")
	case is:
		err = fmt.Errorf("panic: %w", err)
	default:
		err = fmt.Errorf("panic: %v", thrown)
	}
	te := inlineError(t, Panic, err)
	te.Stack = string(debug.Stack())
	return te
}

// count counts an outcome, and reports it if it is a bad one.
func (e *Inline) count(c *inlineContext, t *Task, ran time.Duration, err error) {
	o, _ := OutcomeOf(err)
	e.mu.Lock()
	e.stats.Outcomes[o]++
	e.stats.RunTime.Add(ran)
	if err != nil && c.closed {
		e.aborted++
	}
	e.mu.Unlock()
	switch o {
	case Panic, Timeout:
		e.events.Send(InlineEvent{Time: time.Now(), Task: t.Name, ID: t.ID, Err: err})
	default:
	}
}

// leave ends a task whose caller has its outcome.
func (e *Inline) leave(c *inlineContext) {
	e.mu.Lock()
	if c.next != nil {
		c.next.before = c.before
	}
	if c.before != nil {
		c.before.next = c.next
	} else {
		e.running = c.next
	}
	c.next, c.before = nil, nil
	e.stats.Running--
	e.rest()
	cancel := c.cancel
	e.mu.Unlock()
	switch {
	case cancel != nil:
		cancel(nil)
	case c.until.IsZero() && !c.closed:
		e.contexts.Put(c)
	}
}

// Stats returns a snapshot.
func (e *Inline) Stats() InlineStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.State = e.ending
	return s
}

// Capacity returns 1, for the task that the caller may run, and 0 after the end.
func (e *Inline) Capacity() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending != InlineOpen {
		return 0
	}
	return 1
}

// alwaysRoom is closed.
var alwaysRoom = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Room returns a closed channel: there is always room, or the end has begun.
func (e *Inline) Room() <-chan struct{} { return alwaysRoom }

// Guarantees returns what a direct call guarantees.
func (e *Inline) Guarantees() Guarantees {
	return Guarantees{Exact: true, Notes: []string{
		"tasks run in the goroutines of their callers: a handler that ignores its context cannot be stopped (Preemptive)",
		"a fatal error, such as running out of memory or a concurrent map write, ends this program (CrashProof)",
		"memory and processor time of a direct call cannot be limited (MemoryBound, CPUBound)",
	}}
}
