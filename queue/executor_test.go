package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	bullpen "github.com/bullpen-run/bullpen"
)

// executor is an executor for tests: a goroutine for each task, at most size at a
// time, and a queue of the same size.
type executor struct {
	size    int
	handler bullpen.Handler
	running atomic.Int64
	closed  atomic.Bool
	wg      sync.WaitGroup
	refuse  atomic.Pointer[error] // what Submit answers, nil to accept
}

func newExecutor(size int, handler bullpen.Handler) *executor {
	return &executor{size: size, handler: handler}
}

func (c *executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if err := c.refuse.Load(); err != nil {
		return *err
	}
	if c.closed.Load() {
		return bullpen.ErrClosed
	}
	c.running.Add(1)
	c.wg.Go(func() { // ends with the handler; Close waits for it
		r, err := c.run(ctx, t)
		c.running.Add(-1)
		done(r, err)
	})
	return nil
}

func (c *executor) run(ctx context.Context, t bullpen.Task) (r bullpen.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &bullpen.TaskError{Outcome: bullpen.Panic, Task: t.Name, ID: t.ID, Message: fmt.Sprint(p), ExitCode: -1}
		}
	}()
	b, err := c.handler(ctx, t)
	var te *bullpen.TaskError
	switch {
	case err == nil:
		return bullpen.Result{Payload: b, Stats: bullpen.Stats{Worker: "executor"}}, nil
	case errors.As(err, &te):
		return r, te
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

func (c *executor) Capacity() int { return max(0, c.size-int(c.running.Load())) }

func (c *executor) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{Exact: true} }

func (c *executor) Drain(context.Context) error { return c.Close() }
func (c *executor) Stop(context.Context) error  { return c.Close() }

func (c *executor) Close() error {
	c.closed.Store(true)
	c.wg.Wait()
	return nil
}
