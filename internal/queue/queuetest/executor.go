package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// executor is that of the suite: size goroutines at a time run tasks, the
// others wait for them. It keeps a record of what started. A handler that returns
// a *bullpen.TaskError says how its worker ended.
type executor struct {
	size    int
	handler bullpen.Handler
	refuse  atomic.Pointer[func(bullpen.Task) error] // what Submit answers; nil accepts
	places  func() int                               // what Capacity says in place of size; nil for none
	peak    atomic.Int64                             // the most that were accepted at a time
	held    atomic.Int64
	slots   chan struct{}
	tasks   sync.WaitGroup
	closed  atomic.Bool

	mu      sync.Mutex
	starts  []start                         // guarded by mu
	running map[int]context.CancelCauseFunc // by the number of its start; guarded by mu
	aborted bool                            // guarded by mu
}

// start is one start of a handler.
type start struct {
	at   time.Time
	task bullpen.Task
	job.Delivered
}

func newExecutor(size int, handler bullpen.Handler) *executor {
	return &executor{size: size, handler: handler, slots: make(chan struct{}, size)}
}

// Submit accepts a task, or says what refuse says.
func (c *executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if refuse := c.refuse.Load(); refuse != nil {
		if err := (*refuse)(t); err != nil {
			return err
		}
	}
	if c.closed.Load() {
		return bullpen.ErrClosed
	}
	for held := c.held.Add(1); ; {
		peak := c.peak.Load()
		if held <= peak || c.peak.CompareAndSwap(peak, held) {
			break
		}
	}
	c.tasks.Go(func() { // ends with the handler; Close waits for it
		r, err := c.run(ctx, t)
		c.held.Add(-1)
		done(r, err)
	})
	return nil
}

func (c *executor) run(ctx context.Context, t bullpen.Task) (r bullpen.Result, err error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return r, fmt.Errorf("task %s did not start: %w", t.ID, context.Cause(ctx))
	}
	defer func() {
		if p := recover(); p != nil {
			err = &bullpen.TaskError{Outcome: bullpen.Panic, Task: t.Name, ID: t.ID, Message: fmt.Sprint(p), Retryable: true, ExitCode: -1}
		}
	}()
	ctx, leave := c.enter(ctx, t)
	defer leave()
	began := time.Now()
	b, err := c.handler(ctx, t)
	r.Stats = bullpen.Stats{Worker: "executor", Ran: time.Since(began), PeakMemory: peakMemory}
	var te *bullpen.TaskError
	switch {
	case err == nil:
		r.Payload = b
		return r, nil
	case errors.As(err, &te):
		named := *te
		named.Task, named.ID, named.Worker = t.Name, t.ID, "executor"
		return r, &named
	case ctx.Err() != nil:
		o := bullpen.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			o = bullpen.Timeout
		}
		return r, &bullpen.TaskError{Outcome: o, Task: t.Name, ID: t.ID, ExitCode: -1}
	default:
		return r, &bullpen.TaskError{
			Outcome: bullpen.Failed, Task: t.Name, ID: t.ID, Message: err.Error(), Retryable: bullpen.Retryable(err), ExitCode: -1,
		}
	}
}

// errAborted ends what still runs at the end of a test.
var errAborted = errors.New("the test has ended")

// enter notes the start of a task.
func (c *executor) enter(ctx context.Context, t bullpen.Task) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.starts)
	c.starts = append(c.starts, start{time.Now(), t, queue.AttemptOf(t)})
	if c.running == nil {
		c.running = make(map[int]context.CancelCauseFunc)
	}
	c.running[n] = cancel
	if c.aborted {
		cancel(errAborted)
	}
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, n)
		cancel(nil)
	}
}

// abort ends all that runs, at the end of a test.
func (c *executor) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	for _, cancel := range c.running {
		cancel(errAborted)
	}
}

// peakMemory is what the workers of an executor use.
const peakMemory = 12 << 20

// refusing makes Submit answer what refuse says, until it is called with nil.
func (c *executor) refusing(refuse func(bullpen.Task) error) {
	if refuse == nil {
		c.refuse.Store(nil)
		return
	}
	c.refuse.Store(&refuse)
}

// of returns the starts of a job, of all when id is empty.
func (c *executor) of(id string) []start {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" {
		return slices.Clone(c.starts)
	}
	var all []start
	for _, s := range c.starts {
		if s.task.ID == id {
			all = append(all, s)
		}
	}
	return all
}

// Capacity tells how many tasks could start now.
func (c *executor) Capacity() int {
	size := c.size
	if c.places != nil {
		size = c.places()
	}
	return max(0, size-int(c.held.Load()))
}

// Guarantees tells that it learns of every end.
func (c *executor) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{Exact: true} }

// Drain is Close.
func (c *executor) Drain(context.Context) error { return c.Close() }

// Stop is Close.
func (c *executor) Stop(context.Context) error { return c.Close() }

// Close refuses more tasks and waits for those that run.
func (c *executor) Close() error {
	c.closed.Store(true)
	c.tasks.Wait()
	return nil
}

// work is one call of Work.
type work struct {
	f      *fixture
	cancel context.CancelFunc
	ended  chan struct{} // closed when Work has returned
	err    error         // of Work; written before ended is closed
}

// work runs jobs of q on c until the test ends, or stop is called.
func (f *fixture) work(q *queue.Queue, c *executor, config queue.WorkConfig) *work {
	f.t.Helper()
	if config.Grace == 0 {
		config.Grace = Patience
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{f: f, cancel: cancel, ended: make(chan struct{})}
	go func() { // ends with ctx, at the latest when the queue is closed; the clean-up waits
		w.err = q.Work(ctx, c, config)
		close(w.ended)
	}()
	f.t.Cleanup(func() {
		cancel()
		c.abort()
		await(f, "Work returns", w.ended)
		_ = f.within("the tasks of the executor end", c.Close)
	})
	return w
}

// stop ends the call of Work and waits for it.
func (w *work) stop() {
	w.f.t.Helper()
	w.cancel()
	if err := w.wait(); err != nil {
		w.f.t.Errorf("Work = %v, want nil after the end of its context", err)
	}
}

// wait waits for the end of Work.
func (w *work) wait() error {
	w.f.t.Helper()
	await(w.f, "Work returns", w.ended)
	return w.err
}

// staff starts Work on f's queue with an executor of its own.
func (f *fixture) staff(size int, handler bullpen.Handler) *executor {
	f.t.Helper()
	c := newExecutor(size, handler)
	f.work(f.Queue, c, queue.WorkConfig{})
	return c
}

func echo(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil }

// ends gives what a worker does that ends with an outcome other than ok.
func ends(o bullpen.Outcome) *bullpen.TaskError {
	te := &bullpen.TaskError{Outcome: o, Message: "as the test wants", ExitCode: -1}
	switch o {
	case bullpen.Crashed:
		te.Signal, te.Detail = "segmentation fault", "the last words\nof the worker"
	case bullpen.Memory:
		te.Signal, te.Detail = "killed", "the last words\nof the worker"
	default:
		te.Retryable = true
	}
	return te
}

// gate is a handler that says when it starts, and goes on until it is opened or
// its context ends.
type gate struct {
	started chan bullpen.Task
	opened  chan struct{}
}

func newGate() *gate {
	return &gate{started: make(chan bullpen.Task, 4096), opened: make(chan struct{})}
}

func (g *gate) handle(ctx context.Context, t bullpen.Task) ([]byte, error) {
	g.started <- t
	select {
	case <-g.opened:
		return t.Payload, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *gate) open() { close(g.opened) }
