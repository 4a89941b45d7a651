package queue

import (
	"context"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Check reports why Enqueue would not take j: all its faults, or that the executors
// of its queue cannot run it, or one of those that follow it.
func (q *Queue) Check(j job.Job) error {
	return q.jobs.Check(j)
}

// EnqueueAll puts many jobs into their queues, with as few syncs of the disk as
// it can. It is not all or nothing: the refs are in the order of the jobs, and
// those that were not enqueued have no ID. All jobs are checked before the first
// is put; then the errors are of all that failed. When ctx ends, jobs that were
// put and not confirmed are job.ErrUnconfirmed and have an ID; the rest is not put.
func (q *Queue) EnqueueAll(ctx context.Context, jobs []job.Job) ([]job.Ref, error) {
	return q.jobs.EnqueueAll(ctx, jobs)
}

// EnqueueChain enqueues the first of some jobs, and the others as its Then: each
// runs when the one before has ended well, with its result as payload. The ref is
// that of the first job. It costs what Enqueue costs; each link costs one message and
// one read more than a job by itself.
func (q *Queue) EnqueueChain(ctx context.Context, jobs ...job.Job) (job.Ref, error) {
	return q.jobs.EnqueueChain(ctx, jobs...)
}

// WaitChain waits for the end of the chain that the job id belongs to, from that
// job on, and returns the result of its last job. A job that ends otherwise than
// well ends the chain; the error is an *job.EndError that names it. Else it is like
// Wait.
func (q *Queue) WaitChain(ctx context.Context, id string) (bullpen.Result, error) {
	return q.jobs.WaitChain(ctx, id)
}

// Enqueue puts j into its queue. When it returns nil the job survives a loss of
// power and has one outcome in the end. An error that is job.ErrUnconfirmed says that
// the job may be there or not; any other says that it is not.
//
// A job that no executor could run (see Config.Refuse) is refused by
// [bullpen.ErrRefused] or [bullpen.ErrUnknownTask].
//
// It costs one message to the store and one sync of the disk, which calls at the
// same time share; with a Key one message more.
func (q *Queue) Enqueue(ctx context.Context, j job.Job) (job.Ref, error) {
	return q.jobs.Enqueue(ctx, j)
}
