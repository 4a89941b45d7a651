package queue

import (
	"context"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Payload returns the input of a job: of one that has ended as long as that is kept,
// of a dead one as long as it is among the dead; then the error is job.ErrPayloadGone. It
// costs as much as Get.
func (q *Queue) Payload(ctx context.Context, id string) ([]byte, error) {
	return q.jobs.Payload(ctx, id)
}

// Retry enqueues a job that has ended again, as a new job with attempts of its own
// whose Parent is the old one. A dead one leaves the dead (see RetryDead). One that is
// Done or Canceled stays as it is; until the new job has ended, calling it again gives
// back that one. The new job of one that is Done is in no chain, and no new one is in a
// batch. The error is job.ErrNotEnded for a job that has not ended, and job.ErrPayloadGone when
// its payload is not kept.
func (q *Queue) Retry(ctx context.Context, id string) (job.Ref, error) {
	return q.jobs.Retry(ctx, id)
}

// Scheduled returns how many jobs of all queues wait for their time. To which queue
// each belongs only a list tells. It costs as much as [Queue.Counts].
func (q *Queue) Scheduled(ctx context.Context) (int64, error) {
	return q.jobs.Scheduled(ctx)
}

// Get returns what there is to know of a job: of one that waits or runs, and of
// one that has ended as long as its outcome is kept (Config.Keep). Otherwise the
// error is job.ErrNotFound. It costs two to five reads.
func (q *Queue) Get(ctx context.Context, id string) (*job.Info, error) {
	return q.jobs.Get(ctx, id)
}

// List returns jobs in the order in which they came into the state that f names,
// or the other way round (f.Newest). Payloads and results are left out, their sizes
// are told.
//
// A page may have fewer than f.Limit jobs, or none, and yet be followed by another:
// a call looks at jobs for 60 ms, at about 10 000 of them.
func (q *Queue) List(ctx context.Context, f job.Filter) (job.Page, error) {
	return q.jobs.List(ctx, f)
}

// Wait waits for the end of a job and returns its result, from whatever node it
// is called. The error is an *job.EndError when the job ended otherwise than well,
// job.ErrNotFound when there is no such job; when ctx ends first the job goes on, and
// the error wraps the cause of ctx.
//
// What it returns survives a loss of power.
func (q *Queue) Wait(ctx context.Context, id string) (bullpen.Result, error) {
	return q.jobs.Wait(ctx, id)
}

// Run enqueues j and waits for its end: Enqueue and Wait in one, and cheaper.
// When ctx ends first the job goes on; ref names it.
func (q *Queue) Run(ctx context.Context, j job.Job) (ref job.Ref, r bullpen.Result, err error) {
	return q.jobs.Run(ctx, j)
}
