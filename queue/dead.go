package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// DeadCauses groups the dead jobs that f selects by cause, the last ones first. It
// takes 120 ms at most, in which it looks at about 10 000 jobs. f.State, f.Limit and
// f.Newest are not looked at.
func (q *Queue) DeadCauses(ctx context.Context, f job.Filter) (job.Causes, error) {
	return q.jobs.DeadCauses(ctx, f)
}

// ListDead returns jobs that failed for good, with their evidence, in the order
// in which they died. It is List with f.State Dead.
func (q *Queue) ListDead(ctx context.Context, f job.Filter) (job.Page, error) {
	return q.jobs.ListDead(ctx, f)
}

// GetDead returns a dead job with its payload and evidence: the last lines of
// standard error are in its job.EndError's Task.Detail, signal, exit code and memory
// in its History.
func (q *Queue) GetDead(ctx context.Context, id string) (*job.Info, error) {
	return q.jobs.GetDead(ctx, id)
}

// RetryDead enqueues a dead job again, as a new job with attempts of its own
// whose Parent is the old one, and removes it from the dead. Called again after a
// crash in its midst it gives back the same new job. A deadline that has passed
// is left out. The chain of a job goes on when the new one ends well. A batch has
// counted the job as failed, and does not count the new one.
func (q *Queue) RetryDead(ctx context.Context, id string) (job.Ref, error) {
	return q.jobs.RetryDead(ctx, id)
}

// RemoveDead forgets a dead job. Its outcome is kept as long as any other.
func (q *Queue) RemoveDead(ctx context.Context, id string) error {
	return q.jobs.RemoveDead(ctx, id)
}

// RetryDeadAll enqueues again the dead jobs that f selects, each as RetryDead does:
// limit of them at most (0 is 10 000), for about ten seconds, until a hundred could
// not be. Jobs that die after the call began are not touched; a call that goes on
// behind Bulk.Next may set f.Before to when the first began. Called by several at
// the same time, or again after a crash, each job is enqueued again once.
//
// The error is of the filter or the store; what Bulk tells was done nevertheless.
func (q *Queue) RetryDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.jobs.RetryDeadAll(ctx, f, limit)
}

// RemoveDeadAll forgets the dead jobs that f selects, within the bounds of
// RetryDeadAll.
func (q *Queue) RemoveDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.jobs.RemoveDeadAll(ctx, f, limit)
}
