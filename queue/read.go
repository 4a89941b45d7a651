package queue

import (
	"context"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Payload returns the input of a job. If the job has ended and its payload is no longer
// kept, or a dead job was removed, the error is job.ErrPayloadGone. It costs as much as
// Get.
func (q *Queue) Payload(ctx context.Context, id string) ([]byte, error) {
	return q.jobs.Payload(ctx, id)
}

// Retry enqueues a job that has ended again, as a new job whose Parent is the old one.
// The new job has all its attempts. A dead job is removed from the dead (see
// RetryDead). A job that is Done or Canceled stays as it is; until its new job has
// ended, another call returns that job. The new job of one that is Done is in no chain,
// and no new job is in a batch. The error is job.ErrNotEnded if the job has not ended,
// and job.ErrPayloadGone if its payload is not kept.
func (q *Queue) Retry(ctx context.Context, id string) (job.Ref, error) {
	return q.jobs.Retry(ctx, id)
}

// Scheduled returns how many jobs of all queues wait for their time. Only a list says
// to which queues they belong. It costs as much as [Queue.Counts].
func (q *Queue) Scheduled(ctx context.Context) (int64, error) {
	return q.jobs.Scheduled(ctx)
}

// Get returns a job: one that waits or runs, or one that has ended as long as its
// outcome is kept (Config.Keep). Otherwise the error is job.ErrNotFound. It costs two
// to five reads.
func (q *Queue) Get(ctx context.Context, id string) (*job.Info, error) {
	return q.jobs.Get(ctx, id)
}

// List returns the jobs that f selects: first those that wait for their time, then those
// in their queue, then those that have ended, each in the order in which they came there,
// or in reverse (f.Newest). Of several of these, f.Newest returns all jobs newest
// first, by when they ended or else were enqueued. The jobs have no Payload and no Result,
// but the sizes of both.
//
// A page may have fewer than f.Limit jobs, or none, and yet not be the last: a call
// searches for about 120 ms, and returns about 1 MiB. For each job that has not
// ended it also reads what is known of its attempts: two to four reads.
func (q *Queue) List(ctx context.Context, f job.Filter) (job.Page, error) {
	return q.jobs.List(ctx, f)
}

// Wait waits for the end of a job and returns its result. It may be called on any node.
// If the job did not end ok the error is a *job.EndError; if there is no such job it is
// job.ErrNotFound. If ctx ends first the job goes on, and the error wraps the cause of
// ctx.
//
// An outcome that it returns survives a loss of power.
func (q *Queue) Wait(ctx context.Context, id string) (bullpen.Result, error) {
	return q.jobs.Wait(ctx, id)
}

// Run enqueues j and waits for its end. It costs less than Enqueue and Wait. If ctx
// ends first the job goes on; ref names it.
func (q *Queue) Run(ctx context.Context, j job.Job) (ref job.Ref, r bullpen.Result, err error) {
	return q.jobs.Run(ctx, j)
}
