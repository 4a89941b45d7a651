package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/batch"
	"github.com/bullpen-run/bullpen/internal/queue/cron"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/run"
)

// Queue is a connection to the jobs of one namespace. All methods are safe for
// concurrent use. There may be several on one server or cluster, in one program or in
// many.
type Queue struct {
	jobs      *jobs.Jobs
	node      *run.Node
	batches   *batch.Batches
	schedules *cron.Schedules
}

// Open connects to the store and creates there what is missing. It reports all faults
// of c at once. An embedded store takes some milliseconds to check what it finds. With
// several Replicas Open waits until the cluster has a leader and enough servers, or ctx
// ends; the log says that it waits.
func Open(ctx context.Context, c Config) (*Queue, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("queue: the config is not valid: %w", err)
	}
	c = c.withDefaults()
	e, err := c.Store.Open(ctx, engine.Options{
		Namespace: c.Namespace, Lease: c.Lease, Jobs: c.Keep.Jobs,
		Outcomes: c.Keep.Outcomes, OutcomeCount: c.Keep.OutcomeCount, OutcomeAge: c.Keep.OutcomeAge,
		Dead: c.Keep.Dead, DeadAge: c.Keep.DeadAge, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	q := &Queue{}
	if q.jobs, err = jobs.New(ctx, e, c.inner()); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	q.node = run.New(q.jobs)
	q.batches, q.schedules = batch.New(q.node), cron.New(q.jobs)
	if err := q.node.Listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("queue: %w", err), q.Close())
	}
	q.jobs.Begin()
	q.batches.Begin()
	return q, nil
}

// closePatience bounds how long Close waits for what it was given to be stored.
const closePatience = 30 * time.Second

// Close ends all calls of Work without waiting for the jobs that run (they run again
// elsewhere, or here after the next start), and closes the store. Jobs that have not
// begun, and those that end within a tenth of a second when their context does, are
// returned at once; on a store that other nodes share the others run again after their
// lease. To let running jobs finish, end the contexts of the calls of Work and wait for
// those first. Close may be called again.
func (q *Queue) Close() error {
	if !q.jobs.Shut() {
		q.jobs.AwaitBackground()
		return nil
	}
	q.node.Abort()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := q.jobs.Close(ctx); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}
