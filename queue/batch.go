package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// AddToBatch enqueues members of an open batch, from number offset on; the numbers
// of a batch begin at 0 and have no gaps in the end. Calling it again with the same
// offset after an error or a crash does no harm: members that are there stay as they
// are, whatever jobs says, and have Existing in their ref. Refs and errors are those
// of EnqueueAll. Beside the jobs it costs two messages. The error is job.ErrEnded when the
// batch was sealed or canceled.
func (q *Queue) AddToBatch(ctx context.Context, id string, offset int, jobs []job.Job) ([]job.Ref, error) {
	return q.batches.AddToBatch(ctx, id, offset, jobs)
}

// SealBatch says that an open batch has total members, and that no more will come.
// The error names those that are not there; add them, and call it again. A batch
// that was sealed with the same total is returned as it is. It costs one message.
func (q *Queue) SealBatch(ctx context.Context, id string, total int) (job.BatchInfo, error) {
	return q.batches.SealBatch(ctx, id, total)
}

// OpenBatch makes a batch to which members are added by AddToBatch, until SealBatch
// says that these are all. Where its Key names one that is there, that is returned
// with Existing. One that stays open is forgotten Config.Keep.DeadAge after the last
// addition; its members run like any jobs. It costs one message.
func (q *Queue) OpenBatch(ctx context.Context, b job.Batch) (job.BatchInfo, error) {
	return q.batches.OpenBatch(ctx, b)
}

// EnqueueBatch opens a batch with the given members, enqueues them and seals it. When
// it returns nil all survive a loss of power, and the callbacks will be enqueued.
// After an error the batch is open still: call EnqueueBatch again with the same Key
// and members, or AddToBatch and SealBatch with the id that is returned. Without a
// Key a batch whose call was cut off stays open.
//
// Beside the jobs it costs two messages. While the batch is not done a node holds
// about 1 kB for it, and one to three bits for each member.
func (q *Queue) EnqueueBatch(ctx context.Context, b job.Batch, jobs []job.Job) (job.BatchInfo, error) {
	return q.batches.EnqueueBatch(ctx, b, jobs)
}

// GetBatch returns what there is to know of a batch, as long as its record is kept:
// Config.Keep.OutcomeAge after its end. Otherwise the error is job.ErrNotFound. On a
// store that several nodes share, what others have counted in the last tenth of a
// second may be missing. It costs one read.
func (q *Queue) GetBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.GetBatch(ctx, id)
}

// WaitBatch waits until all members have ended and the callbacks are enqueued, from
// whatever node it is called. The error is job.ErrNotFound when there is no such batch;
// when ctx ends first the batch goes on, and the error wraps the cause of ctx.
func (q *Queue) WaitBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.WaitBatch(ctx, id)
}

// BatchJobs returns members of a batch, limit of them from number from on: of each
// the job that is due, or the last of its chain, without payload and result. next is where to go on, 0 at the
// end. It costs about as many reads as Get for each. How a member has ended may be no
// more kept; then its Err says so.
func (q *Queue) BatchJobs(ctx context.Context, id string, from, limit int) (list []job.Info, next int, err error) {
	return q.batches.BatchJobs(ctx, id, from, limit)
}

// ListBatches returns batches in the order of their last change of state, or the
// other way round (f.Newest). A page may have fewer than f.Limit, or none, and yet be
// followed by another: one has about 4 MiB of them at most, and a call for the newest
// looks for 60 ms.
func (q *Queue) ListBatches(ctx context.Context, f job.BatchFilter) (job.BatchPage, error) {
	return q.batches.ListBatches(ctx, f)
}

// CancelBatch takes back all members that have not ended. When it returns nil that
// is recorded and survives a loss of power; the members are canceled after that, by
// this node or by another that takes over, and WaitBatch waits for it. The callbacks
// are enqueued as for any batch. An open batch takes no more members from then on.
// The error is job.ErrEnded when all had ended, job.ErrNotFound when there is no such batch.
func (q *Queue) CancelBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	return q.batches.CancelBatch(ctx, id)
}
