package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// AddToBatch enqueues members of an open batch, numbered from offset on. In the end the
// numbers of a batch begin at 0 and have no gaps. After an error or a crash it may be
// called again with the same offset: members that are stored stay as they are, whatever
// jobs says, and their refs have Existing. Refs and errors are those of EnqueueAll. It
// costs two messages besides the jobs. The error is job.ErrEnded if the batch was
// sealed or canceled.
func (q *Queue) AddToBatch(ctx context.Context, id string, offset int, jobs []job.Job) ([]job.Ref, error) {
	return q.batches.AddToBatch(ctx, id, offset, jobs)
}

// SealBatch closes an open batch of total members. The error names members that are
// missing; add them and call it again. A batch that was sealed with the same total is
// returned as it is. It costs one message.
func (q *Queue) SealBatch(ctx context.Context, id string, total int) (job.BatchInfo, error) {
	return q.batches.SealBatch(ctx, id, total)
}

// OpenBatch creates a batch, to which AddToBatch adds members until SealBatch. If there
// is a batch with the same Key, that is returned with Existing. A batch that stays open
// is dropped Config.Keep.DeadAge after the last addition; its members run as ordinary
// jobs. It costs one message.
func (q *Queue) OpenBatch(ctx context.Context, b job.Batch) (job.BatchInfo, error) {
	return q.batches.OpenBatch(ctx, b)
}

// EnqueueBatch opens a batch, enqueues its members and seals it. When it returns nil
// all of them survive a loss of power, and the callbacks will be enqueued. After an
// error the batch is still open: call EnqueueBatch again with the same Key and members,
// or AddToBatch and SealBatch with the id that was returned. A batch without a Key
// whose call was interrupted stays open.
//
// It costs two messages besides the jobs. Until the batch has ended, each node holds
// about 1 kB for it and one to three bits for each member.
func (q *Queue) EnqueueBatch(ctx context.Context, b job.Batch, jobs []job.Job) (job.BatchInfo, error) {
	return q.batches.EnqueueBatch(ctx, b, jobs)
}

// GetBatch returns a batch, until Config.Keep.OutcomeAge after its end; then the error
// is job.ErrNotFound. On a store that several nodes share, what other nodes have
// counted in the last tenth of a second may be missing. It costs one read.
func (q *Queue) GetBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.GetBatch(ctx, id)
}

// WaitBatch waits until all members have ended and the callbacks are enqueued. It may
// be called on any node. The error is job.ErrNotFound if there is no such batch; if ctx
// ends first the batch goes on, and the error wraps the cause of ctx.
func (q *Queue) WaitBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.WaitBatch(ctx, id)
}

// BatchJobs returns up to limit members of a batch, numbered from from on, without
// payload and result: of a member that is a chain the job that is next, or the last
// one. next is the number to go on with, 0 at the end. It costs about as much as Get
// for each member. If it is no longer known how a member ended, its Err says so.
func (q *Queue) BatchJobs(ctx context.Context, id string, from, limit int) (list []job.Info, next int, err error) {
	return q.batches.BatchJobs(ctx, id, from, limit)
}

// ListBatches returns batches in the order of their last change of state, or in reverse
// (f.Newest). A page may have fewer than f.Limit batches, or none, and yet not be the
// last: it has at most about 4 MiB, and a call for the newest searches for 60 ms.
func (q *Queue) ListBatches(ctx context.Context, f job.BatchFilter) (job.BatchPage, error) {
	return q.batches.ListBatches(ctx, f)
}

// CancelBatch cancels all members that have not ended. When it returns nil that is
// recorded and survives a loss of power; this node, or another one that takes over,
// then cancels the members. WaitBatch waits for them. The callbacks are enqueued as for
// any batch. An open batch takes no more members. The error is job.ErrEnded if all
// members had ended, and job.ErrNotFound if there is no such batch.
func (q *Queue) CancelBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.CancelBatch(ctx, id)
}
