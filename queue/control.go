package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// Cancel cancels a job. When it returns nil the outcome canceled is recorded and
// survives a loss of power, and the job will not start again. If it runs, its handler
// is asked to end, and killed if the executor can do that; what it returns is not
// recorded. The error is job.ErrEnded if the job had already ended, and job.ErrNotFound
// if there is no such job.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	return q.node.Cancel(ctx, id)
}

// CancelChain cancels a chain: the job id, or whichever job after it is next. The jobs
// after that are not enqueued. The errors are those of Cancel.
func (q *Queue) CancelChain(ctx context.Context, id string) error {
	return q.node.CancelChain(ctx, id)
}

// Pause stops handing out jobs of a queue, on all nodes, until Resume; it survives
// restarts. Jobs that run go on, and jobs that a node has already taken may still
// start. Enqueuing goes on.
func (q *Queue) Pause(ctx context.Context, queue string) error {
	return q.node.Pause(ctx, queue)
}

// Resume starts handing out jobs of a queue again.
func (q *Queue) Resume(ctx context.Context, queue string) error {
	return q.node.Resume(ctx, queue)
}

// Depth returns how many jobs wait in a queue, by priority. It reads from the store.
func (q *Queue) Depth(ctx context.Context, queue string) ([]job.Depth, error) {
	return q.node.Depth(ctx, queue)
}

// Counts returns how many jobs a queue has. It reads from the store, which needs about
// a millisecond for 20 000 dead jobs; their count is reused for fifty times as long as
// it took.
func (q *Queue) Counts(ctx context.Context, queue string) (job.Counts, error) {
	return q.node.Counts(ctx, queue)
}
