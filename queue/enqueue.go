package queue

import (
	"context"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Check reports why Enqueue would not accept j: all its faults, or why the executors of
// its queue cannot run it or a job that follows it.
func (q *Queue) Check(j job.Job) error {
	return q.jobs.Check(j)
}

// EnqueueAll enqueues many jobs with few syncs of the disk. It is not all or nothing:
// the refs are in the order of the jobs, and those of jobs that were not enqueued have
// no ID. All jobs are checked before the first is enqueued. The error joins those of
// all jobs that failed. When ctx ends, jobs that were sent and not confirmed have an ID
// and the error job.ErrUnconfirmed; the others are not sent.
func (q *Queue) EnqueueAll(ctx context.Context, jobs []job.Job) ([]job.Ref, error) {
	return q.jobs.EnqueueAll(ctx, jobs)
}

// EnqueueChain enqueues the first of the jobs, with the others as its Then: each runs
// when the one before has ended ok, with its result as payload. The ref is that of the
// first job. It costs as much as Enqueue; each link costs one message and one read more
// than a single job.
func (q *Queue) EnqueueChain(ctx context.Context, jobs ...job.Job) (job.Ref, error) {
	return q.jobs.EnqueueChain(ctx, jobs...)
}

// WaitChain waits for the end of the chain that the job id belongs to, from that job
// on, and returns the result of the last job. A job that does not end ok ends the
// chain; then the error is a *job.EndError for that job. Otherwise it is like Wait.
func (q *Queue) WaitChain(ctx context.Context, id string) (bullpen.Result, error) {
	return q.jobs.WaitChain(ctx, id)
}

// Enqueue stores j in its queue. When it returns nil the job survives a loss of power,
// and will have exactly one outcome. After job.ErrUnconfirmed the job may be stored or
// not; after any other error it is not.
//
// A job that no executor could run (see Config.Refuse) is refused with
// [bullpen.ErrRefused] or [bullpen.ErrUnknownTask].
//
// It costs one message to the store and one sync of the disk, which concurrent calls
// share; with a Key one more message.
func (q *Queue) Enqueue(ctx context.Context, j job.Job) (job.Ref, error) {
	return q.jobs.Enqueue(ctx, j)
}
