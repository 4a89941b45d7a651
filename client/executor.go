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
)

// Overflow is what an [Executor] does with a task when as many wait as may.
type Overflow uint8

// The overflow rules.
const (
	// Block lets Submit wait for a place until its context ends. A task that the
	// daemon has no place for is given to it again until then.
	Block Overflow = iota
	// Reject lets Submit return bullpen.ErrOverloaded; so ends a task that the
	// daemon has no place for.
	Reject
	// DropOldest ends the task that has waited longest with bullpen.ErrOverloaded
	// and takes the new one. A task that the daemon has no place for is given to
	// it again.
	DropOldest
)

// ExecutorConfig says what an executor is like. The zero value works.
type ExecutorConfig struct {
	// Durable enqueues each task as a job, which survives the death of the daemon
	// and of this program, and is run again as Job and the pool's policy say.
	// Otherwise tasks are ephemeral: they bypass the queue, which the pool has to
	// allow (ephemeral: true), and run once.
	Durable bool
	// Job is what durable jobs have in common: priority, policy, compensation. Its
	// fields Task, Payload, Meta, Key, Limits, Delay, At and Deadline are not looked
	// at, for each task has its own.
	Job Job
	// Inflight is how many tasks are at the daemon at a time. Default 64.
	Inflight int
	// Queue is how many tasks wait here for one of these places. Default 1024; -1
	// is none.
	Queue int
	// Overflow is what happens when so many wait.
	Overflow Overflow
	// CloseGrace is how long a task that was asked to end may take to do so; then
	// its connection is cut, and it is lost. It should be longer than the grace of
	// the pool. Default 10 s.
	CloseGrace time.Duration
	// Promises is what the pool is known to promise, such as that it keeps a bound
	// of memory. The executor cannot see that, and says of itself what is said
	// here; the daemon refuses a task with a limit that it cannot keep. Exact is
	// never promised, for a connection may break.
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
	if c.Job.Attempts < 0 || c.Job.Crashes < 0 || c.Job.Backoff < 0 || c.Job.MaxBackoff < 0 {
		faults = append(faults, errors.New("Job has a negative Attempts, Crashes, Backoff or MaxBackoff: use 0 for the pool's"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuration of the executor: %w", err)
	}
	return nil
}

// Executor runs tasks on a pool of a daemon. It keeps the contract of
// [bullpen.Executor]: each accepted task has exactly one outcome, and that is
// [bullpen.Lost] where the daemon had the task and its answer did not come. A task
// whose daemon cannot be reached at all never starts: after [Config.Retries] tries
// it ends with an error that wraps [ErrUnreachable] and [bullpen.ErrStart].
type Executor struct {
	client *Client
	pool   string
	config ExecutorConfig
	way    way

	state    lifecycle.Machine[executorState]
	stopping chan struct{} // closed by Stop and Close: what has not started fails
	idle     chan struct{} // closed when an ending has begun and nothing is left
	room     bullpen.RoomSignal

	mu sync.Mutex
	// active counts the places that are taken. It may exceed Inflight by what
	// tasks in hand hand in themselves. +checklocks:mu
	active  int
	hand    map[string]*run // those that have a place, by id; +checklocks:mu
	waiting list.List       // *run; +checklocks:mu
	telling int             // tasks that waited and are being told that they never started; +checklocks:mu
	cut     []string        // tasks whose connection was cut by Close; +checklocks:mu
	aborted int             // tasks that Close has ended; +checklocks:mu
	unsent  int             // tasks that Stop or Close has ended before the daemon took them; +checklocks:mu
	blocked list.List       // *run whose Submit waits; +checklocks:mu
}

// way is how tasks get to the daemon.
type way interface {
	// id makes an id for a task, which may have one of its own.
	id(own string) string
	// try gives the task to the daemon once and waits for its end.
	try(ctx context.Context, r *run, s *sending) (bullpen.Result, error)
	// withdraw asks the daemon once to end the task; true says that it will.
	withdraw(ctx context.Context, r *run) bool
}

// Executor returns an executor for a pool. It asks the daemon for nothing before
// the first task.
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

// Submit hands t over, as bullpen.Executor says. The task travels with its payload,
// metadata and limits, and the deadline of ctx; keys of Meta that begin with
// "bullpen." stay here.
//
// A task that is handed in with the context of a task that this executor has in
// hand (see [WithParent]) never waits here behind others, for its parent would wait
// with it: it goes to the daemon at once, or is refused with [ErrNested] when
// Inflight such tasks do already.
func (e *Executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	r, err := e.newRun(ctx, &t, done)
	if err != nil {
		return err
	}
	has, err := e.admit(r)
	if err == nil && has {
		go e.work(r) // ends when no task waits for its place; the endings wait for it
	}
	return err
}

// Execute hands t over and waits for its outcome.
func (e *Executor) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	var res bullpen.Result
	var end error
	told := make(chan struct{})
	r, err := e.newRun(ctx, &t, func(got bullpen.Result, err error) {
		res, end = got, err
		close(told)
	})
	if err != nil {
		return bullpen.Result{}, err
	}
	has, err := e.admit(r)
	if err != nil {
		return bullpen.Result{}, err
	}
	if has { // no other goroutine is needed for it
		e.perform(r)
		if next := e.release(r); next != nil {
			go e.work(next) // as in Submit
		}
	}
	<-told
	return res, end
}

// move moves a task on. Only who owns it calls, so a refused move is a fault here.
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

// work performs a task, and then those that wait for its place.
func (e *Executor) work(r *run) {
	for r != nil {
		e.perform(r)
		r = e.release(r)
	}
}

// perform runs a task that has a place, and tells its outcome.
func (e *Executor) perform(r *run) {
	res, err := e.drive(r)
	if r.unwatch != nil {
		r.unwatch()
	}
	e.move(r, runEnded)
	e.noteEnd(r, err)
	r.done(res, err)
}

// drive gives a task to the daemon, again while the daemon has no place for it.
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

// never is the error of a task that the daemon did not take. ErrClosed says that
// this executor takes no more; a daemon that stops may be back in a moment.
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

// persists reports whether a task that the daemon did not take is given to it again.
func (e *Executor) persists(no *Error, n int) bool {
	if no.Cause == "overloaded" || no.Cause == "rate" || no.Cause == "full" {
		return e.config.Overflow != Reject
	}
	return n < e.client.config.Retries
}

// Capacity tells how many more tasks can go to the daemon now. It does not know how
// many workers are free there.
func (e *Executor) Capacity() int {
	if e.state.State() != executorOpen {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.config.Inflight-e.active)
}

// Room returns a channel that is closed as soon as Capacity is above 0, and when the
// executor begins to end; see [bullpen.RoomNotifier].
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

// ids makes ids that no other program makes.
type ids struct {
	prefix string
	number atomic.Uint64
}

func newIDs() ids {
	const enough = 13 // characters of 5 bits
	return ids{prefix: rand.Text()[:enough] + "-"}
}

// longestOwn is how much of a task's own id goes into the one it gets here.
const longestOwn = 32

// id makes an id. It has the task's own in it, where that may stand in one, so that
// it is found in the daemon's log.
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
