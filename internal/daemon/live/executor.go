package live

import (
	"context"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/queue"
)

// executor tracks the tasks of another one.
type executor struct {
	bullpen.Executor

	hub       *Hub
	pool      string
	ephemeral bool
}

// Wrap returns e with its tasks tracked by h as jobs of a pool's queue. Tasks without
// an id are passed on unchanged.
func (h *Hub) Wrap(pool string, e bullpen.Executor) bullpen.Executor {
	return &executor{Executor: e, hub: h, pool: pool}
}

// WrapEphemeral is Wrap for tasks that are not jobs. Where finds them, Follow does
// not, and a task with the id of a running one is refused with ErrLive.
func (h *Hub) WrapEphemeral(pool string, e bullpen.Executor) bullpen.Executor {
	return &executor{Executor: e, hub: h, pool: pool, ephemeral: true}
}

// Room returns that of the inner executor.
func (x *executor) Room() <-chan struct{} { return bullpen.Room(x.Executor) }

// story begins the story of t. For a job, it becomes t's observer.
func (x *executor) story(t *bullpen.Task) (*story, error) {
	s := &story{hub: x.hub, key: key{t.ID, x.ephemeral}, pool: x.pool}
	if !x.ephemeral {
		s.attempt, s.began, s.inner = 1, time.Now(), t.Observer
		if len(t.Meta) > 0 {
			s.attempt = queue.AttemptOf(*t).Attempt
		}
		t.Observer = s
	}
	return s, x.hub.begin(s)
}

// Submit submits t.
func (x *executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if t.ID == "" || done == nil {
		return x.Executor.Submit(ctx, t, done)
	}
	s, err := x.story(&t)
	if err != nil {
		return err
	}
	s.done = done
	err = x.Executor.Submit(ctx, t, s.finish)
	if err != nil {
		x.hub.end(s)
	}
	return err
}

// finish records the outcome and passes it on.
func (s *story) finish(r bullpen.Result, err error) {
	s.hub.end(s)
	s.done(r, err)
}

// Execute runs t and waits for its outcome.
func (x *executor) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	if t.ID == "" {
		return bullpen.Execute(ctx, x.Executor, t)
	}
	s, err := x.story(&t)
	if err != nil {
		return bullpen.Result{}, err
	}
	defer x.hub.end(s)
	return bullpen.Execute(ctx, x.Executor, t)
}
