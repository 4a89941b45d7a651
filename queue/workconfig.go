package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// WorkConfig says which jobs a call of Work takes. The zero value takes those of
// the queue "default", as many as the executor can start.
type WorkConfig struct {
	// Queue is the name of the queue. Default "default".
	Queue string
	// Concurrency is the most jobs that this call has in the executor at a time.
	// Default: what the executor's Capacity says.
	Concurrency int
	// Strict makes jobs of a higher priority go first always, so that low ones
	// may wait for ever. Default: 8 high, 4 normal, 1 low.
	Strict bool
	// Group is what holds for each group of the queue that has no limits of its own
	// (see Queue.SetGroupLimits). Of several calls on one queue in a program the last
	// one counts; those of all nodes should say the same.
	Group job.GroupLimits
	// Grace is how long jobs that run may go on after the end of ctx. Default 30 s;
	// -1 ends them at once.
	Grace time.Duration
	// Bury is as Job.Bury, for jobs whose record is damaged so that what they say is
	// not known. Its job has no payload. Empty tells nobody.
	Bury string
}

func (c WorkConfig) check() error {
	var errs []error
	if c.Queue != "" {
		errs = append(errs, job.CheckToken("Queue", c.Queue))
	}
	if len(c.Bury) > job.LongestName {
		errs = append(errs, fmt.Errorf("Bury has %d bytes: use %d at most", len(c.Bury), job.LongestName))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a positive number, or 0 for what the executor can start", c.Concurrency))
	}
	if err := c.Group.Check(); err != nil {
		errs = append(errs, fmt.Errorf("Group: %w", err))
	}
	return errors.Join(errs...)
}

// Work runs jobs of a queue on an executor until ctx ends, and returns when it
// has nothing in hand any more. Many calls may work on one queue, on one node or
// on many; one job is in one hand at a time.
//
// It takes what the executor can start and no more: at most one job of each other
// priority waits in a hand beyond that. When others use the executor too, one that
// tells of room (bullpen.RoomNotifier) is waited for, and any other one is asked from
// time to time. While a job runs, its lease is renewed as long
// as the executor has it, never by the worker itself.
//
// When ctx ends, no more jobs are taken; those that run may finish within
// c.Grace, then their contexts are canceled and they are given back, to run again
// elsewhere. What has not started goes back at once when the executor is stopped
// at the same time. The error is nil after the end of ctx, job.ErrClosed after Close,
// and says why else no jobs can be taken.
func (q *Queue) Work(ctx context.Context, executor bullpen.Executor, c WorkConfig) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("queue: the config of Work is not valid: %w", err)
	}
	return q.node.Work(ctx, executor, run.Config(c))
}
