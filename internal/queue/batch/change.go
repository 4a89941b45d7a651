package batch

import (
	"math/rand/v2"

	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// putBatch returns the Put that stores r. Records of finished batches expire, and so do
// those of batches that stay open and unchanged.
func putBatch(c *jobs.Config, r *record.Batch) engine.Put {
	p := engine.Put{Stream: engine.State, Subject: record.BatchSubject(r.ID), Data: r.Encode(), Durable: true}
	switch {
	case r.Final():
		p.TTL = max(c.Keep.OutcomeAge, time.Second).Round(time.Second)
	case r.State == job.BatchOpen:
		p.TTL = max(c.Keep.DeadAge, time.Second).Round(time.Second)
	}
	return p
}

// readBatch reads the record of a batch.
func (q *Batches) readBatch(ctx context.Context, id string) (*record.Batch, error) {
	if err := record.CheckID(id); err != nil {
		return nil, noBatch(fmt.Sprintf("no such batch: %q is not an id of a batch", id))
	}
	m, err := q.Engine.Get(ctx, engine.State, record.BatchSubject(id))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, noBatch(fmt.Sprintf("no such batch: %s does not exist, or has expired", id))
	}
	if err != nil {
		return nil, jobs.StoreError(err)
	}
	return record.DecodeBatch(m)
}

// noBatch is an ErrNotFound whose text names a batch instead of a job.
type noBatch string

func (e noBatch) Error() string { return string(e) }

// Is reports whether target is ErrNotFound.
func (e noBatch) Is(target error) bool { return target == job.ErrNotFound }

// errUnchanged means that a batch needs no change.
var errUnchanged = errors.New("nothing to change")

// changeBatch applies f to the record of a batch and stores the result, also if other
// callers change it concurrently. f may be called again, each time with a new record. If
// it returns errUnchanged, nothing is stored, and changeBatch returns no error.
func (q *Batches) changeBatch(ctx context.Context, id string, f func(*record.Batch) error) (*record.Batch, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		r, err := q.readBatch(ctx, id)
		if err != nil {
			return nil, err
		}
		from := r.State
		if err = f(r); err != nil {
			if errors.Is(err, errUnchanged) {
				q.learn(r)
				err = q.Settle(ctx)
			}
			return r, err
		}
		if r.State != from {
			if err := from.Move(r.State); err != nil {
				return r, err
			}
		}
		p := putBatch(&q.Config, r)
		p.After = r.Seq
		seq, err := q.PutSeq(ctx, p)
		if err == nil {
			r.Seq = seq
			q.learn(r)
			if r.State != from || r.Final() {
				q.changed()
			}
			return r, nil
		}
		if !errors.Is(err, engine.ErrConflict) {
			return r, err
		}
		select {
		case <-time.After(time.Duration(rand.Float64() * float64(wait))):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}
