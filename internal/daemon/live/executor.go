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

// Wrap returns e with its tasks known to h as jobs of the queue of a pool. Tasks
// without an id are passed on as they are.
func (h *Hub) Wrap(pool string, e bullpen.Executor) bullpen.Executor {
	return &executor{Executor: e, hub: h, pool: pool}
}

// WrapEphemeral is Wrap for tasks that are no jobs: Where finds them, Follow does
// not, and one with the id of a task that runs already is refused by ErrLive.
func (h *Hub) WrapEphemeral(pool string, e bullpen.Executor) bullpen.Executor {
	return &executor{Executor: e, hub: h, pool: pool, ephemeral: true}
}

// Room passes on what the executor inside says.
func (x *executor) Room() <-chan struct{} { return bullpen.Room(x.Executor) }

// story begins the story of t. It becomes the observer of a job.
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

// Submit hands t over.
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

// finish takes the outcome and passes it on.
func (s *story) finish(r bullpen.Result, err error) {
	s.hub.end(s)
	s.done(r, err)
}

// Execute hands t over and waits for its outcome.
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
