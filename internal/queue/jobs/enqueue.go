package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Accept prepares a job for a caller, and refuses one that cannot run.
func (q *Jobs) Accept(j *job.Job) (*record.Job, error) {
	s, err := q.Prepare(j)
	if err == nil {
		err = q.Admit(j, "")
	}
	return s, err
}

// Prepare checks a job and gives it an id.
func (q *Jobs) Prepare(j *job.Job) (*record.Job, error) {
	if err := q.Config.checkJob(j); err != nil {
		return nil, err
	}
	s := &record.Job{ID: ulid.Make().String(), Job: *j, Enqueued: time.Now()}
	if len(j.Then) > 0 {
		s.Job.Then = record.Links(j.Then, j.Queue)
		s.Chain = record.Position{First: s.ID, Number: 1, Of: 1 + len(j.Then)}
	}
	if s.Job.Queue == "" {
		s.Job.Queue = "default"
	}
	if s.Job.Delay > 0 {
		s.Job.At, s.Job.Delay = s.Enqueued.Add(s.Job.Delay), 0
	}
	if !s.Job.At.After(s.Enqueued) {
		s.Job.At = time.Time{}
	}
	return s, nil
}

// Enqueue implements queue.Queue.Enqueue.
func (q *Jobs) Enqueue(ctx context.Context, j job.Job) (job.Ref, error) {
	s, err := q.Accept(&j)
	if err != nil {
		return job.Ref{}, err
	}
	return q.EnqueueStored(ctx, s)
}

// EnqueueStored puts a prepared job.
func (q *Jobs) EnqueueStored(ctx context.Context, s *record.Job) (job.Ref, error) {
	if s.Job.Key != "" {
		return q.enqueueKeyed(ctx, s)
	}
	if err := q.Put(ctx, s.Message()); err != nil {
		return q.notEnqueued(s, err)
	}
	q.Counters.Of(s.Job.Queue).Enqueued.Add(1)
	return job.Ref{ID: s.ID, Queue: s.Job.Queue, State: s.State()}, nil
}

func (q *Jobs) notEnqueued(s *record.Job, err error) (job.Ref, error) {
	if errors.Is(err, job.ErrFull) {
		q.Counters.Of(s.Job.Queue).Refused.Add(1)
		q.Journal.Emit(job.Event{Kind: job.Full, Queue: s.Job.Queue, Text: err.Error()})
	}
	if errors.Is(err, job.ErrUnconfirmed) {
		return job.Ref{ID: s.ID, Queue: s.Job.Queue}, fmt.Errorf("job %s is %w", s.ID, err)
	}
	return job.Ref{}, fmt.Errorf("job %q was not enqueued: %w", s.Job.Name, err)
}

// KeyTries bounds how often enqueueKeyed competes for one key. keyGrace is how long the
// caller that reserved a key may take to put its job; then it is taken for dead.
const (
	KeyTries = 16
	keyGrace = time.Second
	keyPause = 5 * time.Millisecond
)

// enqueueKeyed reserves the key of s for its id, then enqueues it. Of several callers
// with the same key one wins; the others return its job. If the winner died between its
// two messages, the next caller enqueues the job under the winner's id.
func (q *Jobs) enqueueKeyed(ctx context.Context, s *record.Job) (job.Ref, error) {
	subject := record.KeySubject(s.Job.Queue, s.Job.Key)
	put := engine.Put{Stream: engine.State, Subject: subject, Data: record.Key{ID: s.ID, State: job.Queued, Priority: s.Job.Priority, At: s.Job.At}.Encode(subject), New: true}
	for range KeyTries {
		err := q.Put(ctx, put)
		if err == nil {
			return q.enqueueUnder(ctx, s, false)
		}
		if !errors.Is(err, engine.ErrConflict) {
			return q.notEnqueued(s, err)
		}
		ref, seq, err := q.keyHolder(ctx, s, subject)
		if err == nil && ref.ID != "" {
			err = q.Settle(ctx) // the key's record may not be on disk yet
		}
		if err != nil || ref.ID != "" {
			return ref, err
		}
		// The key is free again; seq is that of its old record, 0 if that is gone.
		put.New, put.After = seq == 0, seq
	}
	return job.Ref{}, fmt.Errorf("job %q was not enqueued: other callers with its key came first %d times: try again", s.Job.Name, KeyTries)
}

// enqueueUnder puts a job whose key is reserved. It is no error if another caller has put
// it already.
func (q *Jobs) enqueueUnder(ctx context.Context, s *record.Job, existing bool) (job.Ref, error) {
	m := s.Message()
	m.New = true
	err := q.Put(ctx, m)
	switch {
	case err == nil:
		q.Counters.Of(s.Job.Queue).Enqueued.Add(1)
	case !errors.Is(err, engine.ErrConflict):
		return q.notEnqueued(s, err)
	default:
		if err := q.Settle(ctx); err != nil {
			return q.notEnqueued(s, err)
		}
	}
	return job.Ref{ID: s.ID, Queue: s.Job.Queue, Existing: existing, State: s.State()}, nil
}

// keyHolder finds the job that has the key of s. No id and no error means that the key is
// free: seq is the sequence number of its record, 0 if that is gone.
func (q *Jobs) keyHolder(ctx context.Context, s *record.Job, subject string) (ref job.Ref, seq uint64, err error) {
	m, err := q.Engine.Get(ctx, engine.State, subject)
	if errors.Is(err, engine.ErrNotFound) {
		return job.Ref{}, 0, nil
	}
	if err != nil {
		return job.Ref{}, 0, StoreError(err)
	}
	k, err := record.DecodeKey(subject, m.Data)
	if err != nil {
		q.Journal.Emit(job.Event{Kind: job.Damaged, Queue: s.Job.Queue, Text: err.Error()})
		return job.Ref{}, m.Seq, nil //nolint:nilerr // a damaged key is a free one
	}
	if k.State.Ended() {
		if time.Since(k.Ended) > q.Config.KeyWindow {
			return job.Ref{}, m.Seq, nil
		}
		q.Counters.Of(s.Job.Queue).Duplicates.Add(1)
		return job.Ref{ID: k.ID, Queue: s.Job.Queue, Existing: true, State: k.State}, 0, nil
	}
	info, err := q.Get(ctx, k.ID)
	for errors.Is(err, job.ErrNotFound) && time.Since(m.Time) < keyGrace {
		// The winner has reserved the key but not yet put its job.
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return job.Ref{}, 0, context.Cause(ctx)
		}
		info, err = q.Get(ctx, k.ID)
	}
	switch {
	case err == nil:
		q.Counters.Of(s.Job.Queue).Duplicates.Add(1)
		return job.Ref{ID: k.ID, Queue: s.Job.Queue, Existing: true, State: info.State}, 0, nil
	case !errors.Is(err, job.ErrNotFound):
		return job.Ref{}, 0, err
	}
	if s.Chain.First == s.ID {
		s.Chain.First = k.ID
	}
	s.ID, s.Job.Priority, s.Job.At = k.ID, k.Priority, k.At
	ref, err = q.enqueueUnder(ctx, s, true)
	return ref, 0, err
}
