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

	hub  *Hub
	pool string
}

// Wrap returns e with its tasks known to h as those of a pool. Tasks without an
// id are passed on as they are.
func (h *Hub) Wrap(pool string, e bullpen.Executor) bullpen.Executor {
	return &executor{Executor: e, hub: h, pool: pool}
}

// story begins the story of t, and becomes its observer.
func (x *executor) story(t *bullpen.Task) *story {
	s := &story{hub: x.hub, id: t.ID, pool: x.pool, attempt: 1, began: time.Now(), inner: t.Observer}
	if len(t.Meta) > 0 {
		s.attempt = queue.AttemptOf(*t).Attempt
	}
	t.Observer = s
	x.hub.begin(s)
	return s
}

// Submit hands t over.
func (x *executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if t.ID == "" || done == nil {
		return x.Executor.Submit(ctx, t, done)
	}
	s := x.story(&t)
	s.done = done
	err := x.Executor.Submit(ctx, t, s.finish)
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
	s := x.story(&t)
	defer x.hub.end(s)
	return bullpen.Execute(ctx, x.Executor, t)
}
