package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// Cancel takes a job back. When it returns nil the outcome canceled is recorded
// and survives a loss of power: the job will not start any more. If it runs, its
// handler is asked to end and killed where the executor can; what it answers then
// is not recorded. The error is job.ErrEnded when the job had ended, job.ErrNotFound when
// it is not there.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	return q.node.Cancel(ctx, id)
}

// CancelChain takes back the job of a chain that is due: id, or what followed it.
// What would follow that is not enqueued. The errors are those of Cancel.
func (q *Queue) CancelChain(ctx context.Context, id string) error {
	return q.node.CancelChain(ctx, id)
}

// Pause stops handing out jobs of a queue on all nodes, durably. What runs goes
// on, and what was handed out already may still start; enqueuing goes on.
func (q *Queue) Pause(ctx context.Context, queue string) error {
	return q.node.Pause(ctx, queue)
}

// Resume starts handing out jobs of a queue again.
func (q *Queue) Resume(ctx context.Context, queue string) error {
	return q.node.Resume(ctx, queue)
}

// Depth returns how much waits in a queue, by priority. It asks the store.
func (q *Queue) Depth(ctx context.Context, queue string) ([]job.Depth, error) {
	return q.node.Depth(ctx, queue)
}

// Counts returns how many jobs of a queue there are. It asks the store, which for
// the dead takes about a millisecond for 20 000 of them; so an answer about these is
// used again for fifty times as long as it took.
func (q *Queue) Counts(ctx context.Context, queue string) (job.Counts, error) {
	return q.node.Counts(ctx, queue)
}
