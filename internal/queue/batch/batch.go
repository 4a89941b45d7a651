package batch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// checkBatch reports the faults of a batch, and callbacks that cannot run. The payload of
// a callback may not be known yet.
func (q *Batches) checkBatch(b *job.Batch) error {
	size := 0
	for _, j := range []*job.Job{b.Then, b.Failed} {
		if j != nil {
			size += len(j.Payload) + record.LinksSize(j.Then)
		}
	}
	var tooLarge error
	if most := q.Config.MaxPayload; size > most {
		tooLarge = fmt.Errorf("the batch is not valid: the payloads of Then and Failed, with their followers, have %d bytes: use at most %d in total (Config.MaxPayload)", size, most)
	}
	if err := errors.Join(b.Check(), tooLarge); err != nil {
		return err
	}
	for _, j := range []*job.Job{b.Then, b.Failed} {
		if j == nil {
			continue
		}
		if err := q.Admit(j, ""); err != nil {
			return fmt.Errorf("the batch cannot have this callback: %w", err)
		}
	}
	return nil
}

// OpenBatch implements queue.Queue.OpenBatch.
func (q *Batches) OpenBatch(ctx context.Context, b job.Batch) (job.BatchInfo, error) {
	if err := q.checkBatch(&b); err != nil {
		return job.BatchInfo{}, err
	}
	r, existing, err := q.openBatch(ctx, record.NewBatch(&b))
	if err != nil {
		return job.BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, existing)
}

func (q *Batches) openBatch(ctx context.Context, r *record.Batch) (_ *record.Batch, existing bool, err error) {
	for range jobs.KeyTries {
		p := putBatch(&q.Config, r)
		p.New = true
		seq, err := q.PutSeq(ctx, p)
		if err == nil {
			q.Counters.Opened.Add(1)
			r.Seq = seq
			q.made(r)
			return r, false, nil
		}
		if !errors.Is(err, engine.ErrConflict) {
			return nil, false, fmt.Errorf("the batch was not opened: %w", err)
		}
		there, err := q.readBatch(ctx, r.ID)
		if err == nil {
			err = q.Settle(ctx)
		}
		if !errors.Is(err, job.ErrNotFound) {
			return there, true, err
		}
	}
	return nil, false, errors.New("the batch was not opened: its record kept changing: try again")
}

// EnqueueBatch implements queue.Queue.EnqueueBatch.
func (q *Batches) EnqueueBatch(ctx context.Context, b job.Batch, jobs []job.Job) (job.BatchInfo, error) {
	if err := q.checkBatch(&b); err != nil {
		return job.BatchInfo{}, err
	}
	members, err := q.prepareMembers(0, jobs)
	if err != nil {
		return job.BatchInfo{}, err
	}
	r := record.NewBatch(&b)
	r.Begun.Add(0, len(jobs))
	r, existing, err := q.openBatch(ctx, r)
	if err != nil {
		return job.BatchInfo{}, err
	}
	var again record.Spans
	if existing {
		if r.State != job.BatchOpen {
			return q.batchInfo(ctx, r, true)
		}
		r, again, err = q.beginMembers(ctx, r.ID, 0, len(jobs))
		if errors.Is(err, job.ErrEnded) {
			return q.batchInfo(ctx, r, true) // another caller was faster
		}
		if err != nil {
			return job.BatchInfo{}, err
		}
	}
	refs, err := q.putMembers(ctx, r, 0, members, again)
	if err != nil {
		_, lost := q.membersThere(ctx, r.ID, 0, refs)
		return job.BatchInfo{ID: r.ID, Key: r.Key, Created: r.Created, Existing: existing},
			errors.Join(fmt.Errorf("batch %s is still open: %w", r.ID, err), lost)
	}
	sealed, err := q.seal(ctx, r.ID, len(jobs), func(r *record.Batch) { r.There.Add(0, len(jobs)) })
	if err != nil {
		return job.BatchInfo{ID: r.ID, Key: r.Key, Created: r.Created, Existing: existing}, fmt.Errorf("batch %s may still be open: %w", r.ID, err)
	}
	return q.batchInfo(ctx, sealed, existing)
}

// batchInfo returns what a record says, and for a batch that has not ended the counts so
// far.
func (q *Batches) batchInfo(ctx context.Context, r *record.Batch, existing bool) (job.BatchInfo, error) {
	if !r.Final() {
		t, err := q.ready(ctx, r.ID)
		if err != nil {
			return job.BatchInfo{}, err
		}
		if now, ok := t.info(); ok && (r.Ended.IsZero() || !now.EndedAt.IsZero()) {
			now.Existing = existing
			return now, nil
		}
	}
	i := r.Info()
	i.Existing = existing
	return i, nil
}

// GetBatch implements queue.Queue.GetBatch.
func (q *Batches) GetBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	r, err := q.readBatch(ctx, id)
	if err != nil {
		return job.BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, false)
}

// WaitBatch implements queue.Queue.WaitBatch.
func (q *Batches) WaitBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	for {
		r, err := q.readBatch(ctx, id)
		again := jobs.AskAgain // another node may end it
		var gone chan struct{}
		switch {
		case ctx.Err() != nil:
			return job.BatchInfo{}, fmt.Errorf("gave up waiting for batch %s, which continues: %w", id, context.Cause(ctx))
		case err == nil && r.Final():
			return r.Info(), nil
		case err == nil:
			gone = q.of(id).gone
		case errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrDamaged) || q.Hopeless(err):
			return job.BatchInfo{}, err
		default:
			again = jobs.AskSoon // the store is unreachable for a moment
		}
		select {
		case <-gone:
		case <-time.After(again):
		case <-q.Live.Done():
			return job.BatchInfo{}, job.ErrClosed
		case <-ctx.Done():
		}
	}
}
