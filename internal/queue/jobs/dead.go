package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// ListDead implements queue.Queue.ListDead.
func (q *Jobs) ListDead(ctx context.Context, f job.Filter) (job.Page, error) {
	return q.list(ctx, f, []part{partDead})
}

// GetDead implements queue.Queue.GetDead.
func (q *Jobs) GetDead(ctx context.Context, id string) (*job.Info, error) {
	_, e, s, err := q.dead(ctx, id)
	if err != nil {
		return nil, err
	}
	info := e.Info()
	if s != nil {
		info.Payload, info.Meta, info.Deadline = s.Job.Payload, s.Job.Meta, s.Job.Deadline
		info.PayloadSize = len(info.Payload)
	}
	return info, nil
}

// dead reads a dead job; s is nil if the job itself was damaged.
func (q *Jobs) dead(ctx context.Context, id string) (m engine.Message, e *record.End, s *record.Job, err error) {
	if err := record.CheckID(id); err != nil {
		return m, nil, nil, err
	}
	m, err = q.Engine.Get(ctx, engine.Dead, "dead.*."+id)
	if errors.Is(err, engine.ErrNotFound) {
		return m, nil, nil, fmt.Errorf("%w: %s is not a dead job", job.ErrNotFound, id)
	}
	if err != nil {
		return m, nil, nil, StoreError(err)
	}
	e, err = record.DecodeEnd(id, m.Data)
	if err != nil {
		return m, nil, nil, err
	}
	if s, err = record.DecodeJob(id, e.Job); err != nil {
		return m, e, nil, nil //nolint:nilerr // a job that is damaged is among the dead for that; the ending says so
	}
	s.Job.Queue, s.Job.Priority = e.Queue, e.Priority
	return m, e, s, nil
}

// RetryDead implements queue.Queue.RetryDead.
func (q *Jobs) RetryDead(ctx context.Context, id string) (job.Ref, error) {
	m, e, s, err := q.dead(ctx, id)
	if err != nil {
		return job.Ref{}, err
	}
	if s == nil {
		return job.Ref{}, fmt.Errorf("job %s cannot be retried: its payload is damaged (%s); enqueue the job again", id, e.Message)
	}
	ref, err := q.putAgain(ctx, s, id, id)
	if err != nil {
		return ref, err
	}
	if err := q.Engine.Delete(ctx, engine.Dead, m.Seq); err != nil {
		return ref, StoreError(err)
	}
	q.Journal.Emit(job.Event{Kind: job.TriedAgain, Queue: e.Queue, Task: e.Name, Job: id, Text: "as " + ref.ID})
	return ref, nil
}

// RemoveDead implements queue.Queue.RemoveDead.
func (q *Jobs) RemoveDead(ctx context.Context, id string) error {
	if err := record.CheckID(id); err != nil {
		return err
	}
	m, err := q.Engine.Get(ctx, engine.Dead, "dead.*."+id)
	if errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("%w: %s is not a dead job", job.ErrNotFound, id)
	}
	if err == nil {
		err = q.Engine.Delete(ctx, engine.Dead, m.Seq)
	}
	return StoreError(err)
}
