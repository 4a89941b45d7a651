package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Get implements queue.Queue.Get.
func (q *Jobs) Get(ctx context.Context, id string) (*job.Info, error) {
	info, _, err := q.Stored(ctx, id)
	return info, err
}

// Stored is like Get; for a job that has not ended it also returns what is stored.
func (q *Jobs) Stored(ctx context.Context, id string) (info *job.Info, data []byte, err error) {
	if err := record.CheckID(id); err != nil {
		return nil, nil, err
	}
	// A job moves from its time to its queue to its outcome, so reading in this order
	// finds it. Only a job that is retried later moves back, hence the second round.
	for range 2 {
		for _, subject := range []string{"at." + id, "job.*.*." + id} {
			m, err := q.Engine.Get(ctx, engine.Jobs, subject)
			if err == nil {
				info, err = q.waiting(ctx, m)
			}
			if !errors.Is(err, engine.ErrNotFound) {
				return info, m.Data, StoreError(err)
			}
		}
		if info, err = q.getEnded(ctx, id); !errors.Is(err, engine.ErrNotFound) {
			return info, nil, StoreError(err)
		}
	}
	return nil, nil, fmt.Errorf("%w: %s is not in the queue, or its outcome has expired", job.ErrNotFound, id)
}

func (q *Jobs) getEnded(ctx context.Context, id string) (*job.Info, error) {
	e, err := q.Outcome(ctx, id)
	if err != nil {
		return nil, err
	}
	info := e.Info()
	if s := e.Kept(); s != nil && info.State != job.Dead {
		info.Payload, info.Meta, info.Deadline = s.Job.Payload, s.Job.Meta, s.Job.Deadline
	}
	return info, nil
}

// Outcome reads the recorded outcome of a job.
func (q *Jobs) Outcome(ctx context.Context, id string) (*record.End, error) {
	m, err := q.Engine.Get(ctx, engine.Outcomes, "out."+id)
	if err != nil {
		return nil, err
	}
	return record.DecodeEnd(id, m.Data)
}

// waiting returns what is known of a job that has not ended.
func (q *Jobs) waiting(ctx context.Context, m engine.Message) (*job.Info, error) {
	info, err := record.Queued(m)
	if err != nil {
		return nil, err
	}
	return q.known(ctx, info, m.At)
}

// known adds to a job that waits, for a time if at is not zero, what is known of its
// attempts. A job that has ended meanwhile is returned as such.
func (q *Jobs) known(ctx context.Context, info *job.Info, at time.Time) (*job.Info, error) {
	// A canceled job may not have left the queue yet.
	if ended, err := q.getEnded(ctx, info.ID); !errors.Is(err, engine.ErrNotFound) {
		return ended, err
	}
	t, err := q.TriesOf(ctx, info.ID)
	if err != nil && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, job.ErrDamaged) {
		return nil, err
	}
	info.Attempts, info.Crashes, info.History = t.Started, t.Crashes, t.History
	if n := len(t.History); n > 0 {
		last := t.History[n-1]
		info.Node, info.Worker, info.Outcome, info.LastError = last.Node, last.Worker, last.Outcome, last.Error
	}
	if !at.IsZero() {
		info.At, info.State = at, job.Scheduled
		if t.Started > 0 {
			info.State = job.Retrying
		}
		return info, nil
	}
	info.At, info.State = t.RetryAt, job.Queued
	if !t.RetryAt.IsZero() {
		info.State = job.Retrying
	}
	return info, q.addLive(ctx, info)
}

// TriesOf reads the stored attempts of a job.
func (q *Jobs) TriesOf(ctx context.Context, id string) (record.Tries, error) {
	m, err := q.Engine.Get(ctx, engine.State, "try."+id)
	if err != nil {
		return record.Tries{}, err
	}
	return record.DecodeTries(id, m.Data)
}

// addLive adds what is known of a running job: one here, or one on another node that has
// run for some time.
func (q *Jobs) addLive(ctx context.Context, info *job.Info) error {
	if h := q.Above.Hand(info.ID); h != nil {
		if h.Running() {
			info.State = job.Running
		}
		info.Node = q.Config.Node
		info.Attempts = max(info.Attempts, h.Number())
		info.Progress, info.Note, info.Lines = h.Said()
		return nil
	}
	m, err := q.Engine.Get(ctx, engine.State, "live."+info.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := record.DecodeEnd(info.ID, m.Data)
	if err != nil {
		return nil //nolint:nilerr // it is not needed to know the job
	}
	info.State, info.Node = job.Running, e.Node
	info.Attempts = max(info.Attempts, e.Tries.Started)
	info.Progress, info.Note, info.Lines = e.Progress, e.Note, e.Lines
	return nil
}
