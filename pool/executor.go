package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
)

// A Pool with handlers is an executor that reports when it has room.
var _ bullpen.RoomNotifier = (*Pool)(nil)

// served is a bullpen.Task in the pool. The worker writes stats before the task is done.
type served struct {
	task    bullpen.Task
	handler bullpen.Handler
	output  int
	given   time.Time
	stats   bullpen.Stats
}

// Submit submits t to the handler with its name (Config.Handlers); see [bullpen.Executor].
// done is called by a worker, or by the goroutine that canceled the task.
//
// The task always has its own context. It costs about a microsecond and a kilobyte, so
// [Func] is better for short work.
func (p *Pool) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	at, err := p.serves(t)
	if err == nil && done == nil {
		err = errNil
	}
	if err != nil {
		p.counters.refused.Add(1)
		return err
	}
	s := &served{task: t, handler: p.config.Handlers[t.Name], output: p.config.Output, given: time.Now()}
	if t.Limits.Output > 0 {
		s.output = t.Limits.Output
	}
	s.task.Limits.Output = s.output // for Stream
	j := &job[*served, []byte]{fn: serve, arg: s}
	j.self, j.target = j, at
	j.submitted()
	j.keep(0)
	j.own = at.own(ctx, &j.head)
	if t.Limits.Timeout > 0 {
		j.own.timeout = t.Limits.Timeout
	}
	j.then(func() { s.answer(&j.result, done) })
	if err := at.put(ctx, &j.head, j.own); err != nil {
		return err
	}
	if ctx.Done() != nil {
		j.own.Done() // so that the end of ctx takes effect immediately
	}
	return nil
}

// serves returns the target for a task, or an error if the task must be refused.
func (p *Pool) serves(t bullpen.Task) (*target, error) {
	at := p.handlers[t.Name]
	if at == nil {
		return nil, fmt.Errorf("pool %q: %w %q", p.config.Name, bullpen.ErrUnknownTask, t.Name)
	}
	err := t.Limits.Check()
	if t.Limits.Memory > 0 {
		err = errors.Join(err, errors.New("the memory of a goroutine cannot be limited: use a process pool"))
	}
	if t.Limits.CPU > 0 {
		err = errors.Join(err, errors.New("the processor time of a goroutine cannot be limited: use a process pool"))
	}
	if err != nil {
		return nil, fmt.Errorf("pool %q: task %q: %w: %w", p.config.Name, t.Name, bullpen.ErrRefused, err)
	}
	return at, nil
}

// serve runs the handler.
func serve(ctx context.Context, s *served) (payload []byte, err error) {
	begun := time.Now()
	s.stats.Waited = begun.Sub(s.given)
	if w, ok := ctx.Value(workerKey{}).(*worker); ok && w != nil {
		s.stats.Worker = w.name()
	}
	defer func() { s.stats.Ran = time.Since(begun) }() // also when the handler panics
	payload, err = s.handler(ctx, s.task)
	if err == nil && s.output > 0 && len(payload) > s.output {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", bullpen.ErrOutput, len(payload), s.output)
	}
	return payload, err
}

// answer calls done with the outcome of a task that is over.
func (s *served) answer(r *result[[]byte], done func(bullpen.Result, error)) {
	payload, err := r.read()
	lost := stateOf(r.word.Load()) == TaskLost
	var stats bullpen.Stats
	if !lost { // else the body may be writing there
		stats = s.stats
	}
	var te *bullpen.TaskError
	if errors.As(err, &te) {
		own := *te // another caller may hold it
		own.ID, own.Worker = s.task.ID, stats.Worker
		err = &own
	}
	done(bullpen.Result{Payload: payload, Stats: stats}, err)
}

// Capacity returns how many more tasks could start now: free workers, plus workers that may
// still be started, less the waiting tasks.
func (p *Pool) Capacity() int {
	if p.ending() {
		return 0
	}
	return max(0, int(p.max.Load())-p.counts().busy()-p.waiting())
}

// Room returns a channel that is closed when Capacity is above 0, and when the pool begins
// to shut down; see [bullpen.RoomNotifier].
func (p *Pool) Room() <-chan struct{} {
	c := p.room.Next()
	p.madeRoom()
	return c
}

// madeRoom notifies the waiters if there is room, or if there will never be any.
func (p *Pool) madeRoom() {
	if p.room.HasWaiters() && (p.Capacity() > 0 || p.ending()) {
		p.room.Notify()
	}
}

// Guarantees returns what the pool guarantees for tasks in goroutines. It costs nothing.
func (p *Pool) Guarantees() bullpen.Guarantees {
	return bullpen.Guarantees{
		Exact: true,
		Notes: []string{
			"tasks run in goroutines of this program: a body that ignores its context cannot be stopped, only abandoned and counted (Preemptive)",
			"a fatal error, such as running out of memory or a concurrent map write, ends this program (CrashProof)",
			"memory and processor time of a goroutine cannot be limited (MemoryBound, CPUBound)",
		},
	}
}

var _ bullpen.Checker = (*Pool)(nil)

// Check reports why the pool would refuse t; see [bullpen.Checker].
func (p *Pool) Check(t bullpen.Task) error {
	_, err := p.serves(t)
	return err
}
