package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// DeadCauses groups the dead jobs that f selects by cause, newest jobs first. It
// examines jobs for at most 120 ms, which is about 10 000 jobs. It ignores f.States,
// f.Limit and f.Newest.
func (q *Queue) DeadCauses(ctx context.Context, f job.Filter) (job.Causes, error) {
	return q.jobs.DeadCauses(ctx, f)
}

// ListDead returns dead jobs with their evidence, in the order in which they died. It
// ignores f.States.
func (q *Queue) ListDead(ctx context.Context, f job.Filter) (job.Page, error) {
	return q.jobs.ListDead(ctx, f)
}

// GetDead returns a dead job with its payload and evidence: the last lines of standard
// error are in Task.Detail of its job.EndError; signal, exit code and memory are in its
// History.
func (q *Queue) GetDead(ctx context.Context, id string) (*job.Info, error) {
	return q.jobs.GetDead(ctx, id)
}

// RetryDead enqueues a dead job again, as a new job whose Parent is the old one, and
// removes the old one from the dead. The new job has all its attempts. If a crash
// interrupts it, calling it again returns the same new job. A deadline that has passed
// is dropped. The chain of the job goes on when the new one ends ok. A batch has
// counted the job as failed, and does not count the new one.
func (q *Queue) RetryDead(ctx context.Context, id string) (job.Ref, error) {
	return q.jobs.RetryDead(ctx, id)
}

// RemoveDead removes a dead job. Its outcome is kept as long as any other.
func (q *Queue) RemoveDead(ctx context.Context, id string) error {
	return q.jobs.RemoveDead(ctx, id)
}

// RetryDeadAll calls RetryDead for the dead jobs that f selects: for at most limit of
// them (0 is 10 000), for about ten seconds, until a hundred have failed. Jobs that die
// after the call began are left alone; to have the same in calls that go on at
// Bulk.Next, set f.Before to the time of the first. If several callers do so at the
// same time, or again after a crash, each job is still enqueued once.
//
// The error is of the filter or the store. What Bulk reports was done nevertheless.
func (q *Queue) RetryDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.jobs.RetryDeadAll(ctx, f, limit)
}

// RemoveDeadAll calls RemoveDead for the dead jobs that f selects, within the bounds of
// RetryDeadAll.
func (q *Queue) RemoveDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.jobs.RemoveDeadAll(ctx, f, limit)
}
