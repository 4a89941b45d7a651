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

// WorkConfig is the config of a call of Work. The zero value takes jobs of the queue
// "default", as many as the executor can start.
type WorkConfig struct {
	// Queue is the name of the queue. Default "default".
	Queue string
	// Concurrency is the largest number of jobs that this call has in the executor at a
	// time. Default: the executor's Capacity.
	Concurrency int
	// Strict always prefers jobs of a higher priority, so that low ones may wait
	// forever. Default: of 13 jobs 8 are high, 4 normal and 1 low.
	Strict bool
	// Group has the limits of each group of the queue that has no limits of its own
	// (see Queue.SetGroupLimits). Of several calls on one queue in a program the last
	// one counts. All nodes should have the same.
	Group job.GroupLimits
	// Grace is how long running jobs may go on after the end of ctx. Default 30 s; -1
	// ends them at once.
	Grace time.Duration
	// Bury is like Job.Bury, for jobs whose record is so damaged that their own Bury is
	// not known. Its job has no payload. It may be empty.
	Bury string
}

func (c WorkConfig) check() error {
	var errs []error
	if c.Queue != "" {
		errs = append(errs, job.CheckToken("Queue", c.Queue))
	}
	if len(c.Bury) > job.LongestName {
		errs = append(errs, fmt.Errorf("Bury has %d bytes: use at most %d", len(c.Bury), job.LongestName))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a positive number, or 0 for what the executor can start", c.Concurrency))
	}
	if err := c.Group.Check(); err != nil {
		errs = append(errs, fmt.Errorf("Group: %w", err))
	}
	return errors.Join(errs...)
}

// Work runs jobs of a queue on an executor until ctx ends, and returns when it has no
// job in hand any more. There may be many calls for one queue, on one node or on many;
// a job is in one hand at a time.
//
// It takes as many jobs as the executor can start; beyond that it holds at most one job
// of each other priority. If others use the executor too, Work waits until it has room
// (bullpen.RoomNotifier), or asks from time to time if it cannot notify. It renews the
// lease of a job as long as the executor has the job; workers do not renew leases.
//
// When ctx ends, it takes no more jobs. Those that run may finish within c.Grace; then
// their contexts are canceled and they are returned, to run again elsewhere. Jobs that
// have not started are returned at once if the executor is stopped at the same time.
// The error is nil after the end of ctx and job.ErrClosed after Close; any other error
// says why no more jobs can be taken.
func (q *Queue) Work(ctx context.Context, executor bullpen.Executor, c WorkConfig) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("queue: the config of Work is not valid: %w", err)
	}
	return q.node.Work(ctx, executor, run.Config(c))
}
