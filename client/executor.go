package client

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/job"
)

// Overflow selects what an [Executor] does with a new task when its queue is full.
type Overflow uint8

// The overflow rules.
const (
	// Block makes Submit wait for a place until its context ends. If the daemon has
	// no room for a task, the executor sends it again until the task's context ends.
	Block Overflow = iota
	// Reject makes Submit return bullpen.ErrOverloaded. A task that the daemon has no
	// room for ends with the same error.
	Reject
	// DropOldest ends the task that has waited longest with bullpen.ErrOverloaded and
	// accepts the new one. If the daemon has no room for a task, the executor sends
	// it again.
	DropOldest
)

// ExecutorConfig configures an Executor. The zero value works.
type ExecutorConfig struct {
	// Durable enqueues each task as a job. The job survives a crash of the daemon or
	// of this program, and is retried as Job and the pool's policy allow. Otherwise
	// tasks are ephemeral: they bypass the queue and run once. The pool must allow
	// that (ephemeral: true).
	Durable bool
	// Job has what durable jobs have in common: priority, policy, compensation. Its
	// fields Task, Payload, Meta, Key, Limits, Delay, At and Deadline are ignored,
	// because each task has its own.
	Job job.Job
	// Inflight is the maximum number of tasks at the daemon at a time. Default 64.
	Inflight int
	// Queue is the maximum number of tasks that wait here to be sent. Default 1024;
	// -1 is none.
	Queue int
	// Overflow selects what happens when the queue is full.
	Overflow Overflow
	// CloseGrace is how long a canceled task may take to end; then its connection is
	// cut, and the task is lost. It should be longer than the pool's grace. Default
	// 10 s.
	CloseGrace time.Duration
	// Promises are the guarantees that the pool is known to give, such as a memory
	// limit. The executor cannot check them; Guarantees returns them. The daemon
	// refuses a task with a limit that it cannot keep. Exact is never promised,
	// because a connection may break.
	Promises bullpen.Guarantees
}

func (c ExecutorConfig) withDefaults() ExecutorConfig {
	c.Inflight = cmp.Or(c.Inflight, 64)
	c.Queue = cmp.Or(c.Queue, 1024)
	c.CloseGrace = cmp.Or(c.CloseGrace, 10*time.Second)
	return c
}

func (c ExecutorConfig) check() error {
	var faults []error
	if c.Inflight < 0 {
		faults = append(faults, fmt.Errorf("Inflight is %d: use a positive number, or 0 for the default", c.Inflight))
	}
	if c.Queue < -1 {
		faults = append(faults, fmt.Errorf("Queue is %d: use a positive number, 0 for the default or -1 for none", c.Queue))
	}
	if c.Overflow > DropOldest {
		faults = append(faults, fmt.Errorf("Overflow is %d: use Block, Reject or DropOldest", c.Overflow))
	}
	if c.CloseGrace < 0 {
		faults = append(faults, fmt.Errorf("CloseGrace is %v: use a positive duration, or 0 for the default", c.CloseGrace))
	}
	faults = append(append(faults, c.Job.Retry.Check("Job.Retry")...), checkRetry(&c.Job))
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuration of the executor: %w", err)
	}
	return nil
}

// Executor runs tasks on a pool of a daemon. It keeps the contract of
// [bullpen.Executor]: each accepted task has exactly one outcome. The outcome is
// [bullpen.Lost] if the daemon had the task but its answer did not arrive. If the
// daemon cannot be reached, the task never starts: after [Config.Retries] retries it
// ends with an error that wraps [ErrUnreachable] and [bullpen.ErrStart].
type Executor struct {
	client *Client
	pool   string
	config ExecutorConfig
	way    way

	state    lifecycle.Machine[executorState]
	stopping chan struct{} // closed by Stop and Close; then tasks that have not started fail
	idle     chan struct{} // closed when the executor has shut down
	room     bullpen.RoomSignal

	mu sync.Mutex
	// active is the number of places taken. It can exceed Inflight, because tasks in
	// hand can submit tasks of their own. Guarded by mu.
	active  int
	hand    map[string]*run // tasks that have a place, by id; guarded by mu
	waiting list.List       // *run; guarded by mu
	telling int             // tasks that left the queue unstarted and whose callback has not returned; guarded by mu
	cut     []string        // tasks whose connection Close cut; guarded by mu
	aborted int             // tasks that Close aborted; guarded by mu
	unsent  int             // tasks that Stop or Close ended before the daemon took them; guarded by mu
	blocked list.List       // *run whose Submit is blocked; guarded by mu
}

// way is a way to run tasks at the daemon: durable or ephemeral.
type way interface {
	// id returns a unique id for a task; own is the task's own id, if any.
	id(own string) string
	// try sends the task to the daemon once and waits for its end.
	try(ctx context.Context, r *run, s *sending) (bullpen.Result, error)
	// withdraw asks the daemon once to cancel the task; it returns true if the daemon
	// will.
	withdraw(ctx context.Context, r *run) bool
}

// Executor returns an executor for a pool. It does not contact the daemon before the
// first task.
func (c *Client) Executor(pool string, config ExecutorConfig) (*Executor, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	e := &Executor{
		client: c, pool: pool, config: config, hand: make(map[string]*run),
		stopping: make(chan struct{}), idle: make(chan struct{}),
	}
	e.state.Init(&executorStates, executorOpen)
	if config.Durable {
		e.way = c.newDurable(pool, config.Job)
	} else {
		e.way = c.newEphemeral(pool)
	}
	return e, nil
}

// Submit submits t, as described in bullpen.Executor. It sends the task's payload,
// metadata and limits, and the deadline of ctx. Metadata keys that begin with
// "bullpen." are not sent.
//
// If ctx belongs to a task that this executor is running (see [WithParent]), t does
// not wait in the executor's queue, where it could wait for its own parent. It goes
// to the daemon at once, or fails with [ErrNested] if Inflight such tasks are already
// there.
func (e *Executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	r, err := e.newRun(ctx, &t, done)
	if err != nil {
		return err
	}
	has, err := e.admit(r)
	if err == nil && has {
		go e.work(r) // ends when no task waits for its place; Drain, Stop and Close wait for it
	}
	return err
}

// Execute submits t and waits for its outcome.
func (e *Executor) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	var res bullpen.Result
	var end error
	ended := make(chan struct{})
	r, err := e.newRun(ctx, &t, func(got bullpen.Result, err error) {
		res, end = got, err
		close(ended)
	})
	if err != nil {
		return bullpen.Result{}, err
	}
	has, err := e.admit(r)
	if err != nil {
		return bullpen.Result{}, err
	}
	if has { // run it in this goroutine
		e.perform(r)
		if next := e.release(r); next != nil {
			go e.work(next) // ends as in Submit
		}
	}
	<-ended
	return res, end
}

// move changes a task's state. Only the task's owner calls it, so an invalid move is
// a bug.
func (e *Executor) move(r *run, to runState) {
	if _, err := r.state.MoveAny(to); err != nil {
		e.client.log.Error("a task of an executor made a move that it may not make", slog.Any("error", err))
	}
}

func (e *Executor) newRun(ctx context.Context, t *bullpen.Task, done func(bullpen.Result, error)) (*run, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := t.Limits.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
	}
	r := newRun(e.way.id(t.ID), t)
	r.ctx, r.parent, r.trace, r.done = ctx, parentOf(ctx), taskOf(ctx).trace, done
	e.findParent(r)
	return r, nil
}

// work runs a task, and then the tasks that take over its place.
func (e *Executor) work(r *run) {
	for r != nil {
		e.perform(r)
		r = e.release(r)
	}
}

// perform runs a task that has a place, and calls its callback with the outcome.
func (e *Executor) perform(r *run) {
	res, err := e.drive(r)
	if r.unwatch != nil {
		r.unwatch()
	}
	e.move(r, runEnded)
	e.noteEnd(r, err)
	r.done(res, err)
}

// drive sends a task to the daemon, and again as long as the daemon has no room for
// it.
func (e *Executor) drive(r *run) (bullpen.Result, error) {
	for n := 0; ; n++ {
		res, err := e.client.attempt(r.ctx, e.way, r, e.config.CloseGrace)
		if errors.Is(err, errCut) {
			e.noteCut(r)
		}
		res.Stats.Waited += r.sentAt.Sub(r.accepted)
		no := refused(err)
		if no == nil {
			return res, err
		}
		if !no.repeatable(false) || !e.persists(no, n) || e.client.pause(r.ctx, e.stopping, n, no) != nil {
			return res, e.never(r, no)
		}
	}
}

// never returns the error of a task that the daemon did not accept. ErrClosed is
// reserved for this executor's end: a daemon that stops may soon be back, so its
// answer becomes ErrUnreachable.
func (e *Executor) never(r *run, no *Error) error {
	select {
	case <-e.stopping:
		return fmt.Errorf("%w: %w", bullpen.ErrClosed, no)
	default:
	}
	if no.Cause == "closed" {
		away := *no
		away.Cause, away.Detail = causeUnreachable, "it stops: "+no.Detail
		no = &away
	}
	return r.never(no)
}

// persists reports whether a task that the daemon did not accept is sent again.
func (e *Executor) persists(no *Error, n int) bool {
	if no.Cause == "overloaded" || no.Cause == "rate" || no.Cause == "full" {
		return e.config.Overflow != Reject
	}
	return n < e.client.config.Retries
}

// Capacity returns how many more tasks can be sent to the daemon now. It does not
// know how many workers there are idle.
func (e *Executor) Capacity() int {
	if e.state.State() != executorOpen {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.config.Inflight-e.active)
}

// Room returns a channel that is closed as soon as Capacity is above 0, or when the
// executor begins to shut down; see [bullpen.RoomNotifier].
func (e *Executor) Room() <-chan struct{} {
	c := e.room.Next()
	if e.Capacity() > 0 || e.state.State() != executorOpen {
		e.room.Notify()
	}
	return c
}

// Guarantees returns ExecutorConfig.Promises, without Exact.
func (e *Executor) Guarantees() bullpen.Guarantees {
	g := e.config.Promises
	g.Notes = slices.Clone(g.Notes)
	if g.Exact = false; !e.config.Durable {
		g.Notes = append(g.Notes, "Exact: an answer may be lost with its connection")
	} else {
		g.Notes = append(g.Notes, "Exact: a worker's node may die with the task")
	}
	return g
}

// ids generates ids that are unique across programs.
type ids struct {
	prefix string
	number atomic.Uint64
}

func newIDs() ids {
	const enough = 13 // characters of 5 bits
	return ids{prefix: rand.Text()[:enough] + "-"}
}

// longestOwn is the longest own id of a task that becomes part of the generated id.
const longestOwn = 32

// id generates an id. It includes own, if that is short and of plain characters, so
// that the task can be found in the daemon's log.
func (i *ids) id(own string) string {
	var b [64]byte
	out := append(b[:0], i.prefix...)
	out = strconv.AppendUint(out, i.number.Add(1), 36)
	if own != "" && len(own) <= longestOwn && plain(own) {
		out = append(append(out, '-'), own...)
	}
	return string(out)
}

func plain(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

var _ bullpen.RoomNotifier = (*Executor)(nil)
