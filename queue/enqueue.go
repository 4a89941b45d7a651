package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// accept prepares a job that a caller hands in, unless it cannot run.
func (q *Queue) accept(j *Job) (*stored, error) {
	s, err := q.prepare(j)
	if err == nil {
		err = q.admit(j, "")
	}
	return s, err
}

// prepare checks a job and gives it an id.
func (q *Queue) prepare(j *Job) (*stored, error) {
	if err := j.check(&q.config); err != nil {
		return nil, err
	}
	s := &stored{id: ulid.Make().String(), job: *j, enqueued: time.Now()}
	if len(j.Then) > 0 {
		s.job.Then = links(j.Then, j.Queue)
		s.chain = place{first: s.id, number: 1, of: 1 + len(j.Then)}
	}
	if s.job.Queue == "" {
		s.job.Queue = "default"
	}
	if s.job.Delay > 0 {
		s.job.At, s.job.Delay = s.enqueued.Add(s.job.Delay), 0
	}
	if !s.job.At.After(s.enqueued) {
		s.job.At = time.Time{}
	}
	return s, nil
}

func (s *stored) consumer() engine.Consumer {
	return engine.Consumer{Queue: s.job.Queue, Priority: s.job.Priority.String(), Grouped: s.job.Group != ""}
}

// message gives s as it is put into the stream of jobs.
func (s *stored) message() engine.Put {
	return engine.Put{
		Stream: engine.Jobs, Subject: engine.JobSubject(s.consumer(), s.id), Data: s.encode(), Durable: true, At: s.job.At,
	}
}

// first is the state of a job that was just enqueued.
func (s *stored) first() State {
	if s.job.At.IsZero() {
		return Queued
	}
	return Scheduled
}

// Enqueue puts j into its queue. When it returns nil the job survives a loss of
// power and has one outcome in the end. An error that is ErrUnconfirmed says that
// the job may be there or not; any other says that it is not.
//
// A job that no executor could run (see Config.Refuse) is refused by
// [bullpen.ErrRefused] or [bullpen.ErrUnknownTask].
//
// It costs one message to the store and one sync of the disk, which calls at the
// same time share; with a Key one message more.
func (q *Queue) Enqueue(ctx context.Context, j Job) (Ref, error) {
	s, err := q.accept(&j)
	if err != nil {
		return Ref{}, err
	}
	return q.enqueue(ctx, s)
}

func (q *Queue) enqueue(ctx context.Context, s *stored) (Ref, error) {
	if s.job.Key != "" {
		return q.enqueueKeyed(ctx, s)
	}
	if err := q.put(ctx, s.message()); err != nil {
		return q.notEnqueued(s, err)
	}
	q.tallies.of(s.job.Queue).enqueued.Add(1)
	return Ref{ID: s.id, State: s.first()}, nil
}

func (q *Queue) notEnqueued(s *stored, err error) (Ref, error) {
	if errors.Is(err, ErrFull) {
		q.tallies.of(s.job.Queue).refused.Add(1)
		q.journal.emit(Event{Kind: Full, Queue: s.job.Queue, Text: err.Error()})
	}
	if errors.Is(err, ErrUnconfirmed) {
		return Ref{ID: s.id}, fmt.Errorf("job %s is %w", s.id, err)
	}
	return Ref{}, fmt.Errorf("job %q was not enqueued: %w", s.job.Name, err)
}

// keyRecord is what stands behind an idempotency key.
type keyRecord struct {
	id string
	// priority and at are of the job, so that whoever puts it puts it in the same
	// place, where the second one finds the first.
	priority Priority
	at       time.Time

	state State // Queued while the job is not done
	ended time.Time
}

const (
	keyID = iota + 1
	keyState
	keyEnded
	keyPriority
	keyAt
)

func keySubject(queue, key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key." + queue + "." + hex.EncodeToString(sum[:16])
}

func (k keyRecord) encode(subject string) []byte {
	w := newRecord(64)
	w.text(keyID, k.id)
	w.number(keyState, uint64(k.state))
	w.moment(keyEnded, k.ended)
	w.number(keyPriority, uint64(k.priority))
	w.moment(keyAt, k.at)
	return w.seal(subject)
}

func decodeKey(subject string, b []byte) (keyRecord, error) {
	var k keyRecord
	err := readRecord(subject, b, func(f field) error {
		switch f.tag {
		case keyID:
			k.id = string(f.v)
		case keyState:
			v, err := f.number()
			if err == nil && v > uint64(Canceled) {
				err = fmt.Errorf("%w: it names a state %d", errCorrupt, v)
			}
			k.state = State(v)
			return err
		case keyEnded:
			return f.into(&k.ended)
		case keyAt:
			return f.into(&k.at)
		case keyPriority:
			v, err := f.number()
			if err == nil && v >= priorities {
				err = fmt.Errorf("%w: it names a priority %d", errCorrupt, v)
			}
			k.priority = Priority(v)
			return err
		}
		return nil
	})
	if err == nil && len(k.id) != ulid.EncodedSize {
		err = fmt.Errorf("%w: its id is %q", errCorrupt, k.id)
	}
	if err != nil {
		return keyRecord{}, fmt.Errorf("key: %w", err)
	}
	return k, nil
}

// keyTries bounds how often a race for one key is run. keyGrace is after what time
// a caller who has reserved a key is taken for dead if his job is not there.
const (
	keyTries = 16
	keyGrace = time.Second
	keyPause = 5 * time.Millisecond
)

// enqueueKeyed reserves the key of s for its id, then enqueues it. Of callers
// with the same key one wins; the others give back its job. When the winner died
// between its two messages, the next caller enqueues the job under the winner's
// id.
func (q *Queue) enqueueKeyed(ctx context.Context, s *stored) (Ref, error) {
	subject := keySubject(s.job.Queue, s.job.Key)
	put := engine.Put{Stream: engine.State, Subject: subject, Data: keyRecord{id: s.id, state: Queued, priority: s.job.Priority, at: s.job.At}.encode(subject), New: true}
	for range keyTries {
		err := q.put(ctx, put)
		if err == nil {
			return q.enqueueUnder(ctx, s, false)
		}
		if !errors.Is(err, engine.ErrConflict) {
			return q.notEnqueued(s, err)
		}
		ref, seq, err := q.keyHolder(ctx, s, subject)
		if err == nil && ref.ID != "" {
			err = q.settle(ctx) // whoever has the key may still wait for the disk
		}
		if err != nil || ref.ID != "" {
			return ref, err
		}
		// The key is free again, with seq where its old record is still there.
		put.New, put.After = seq == 0, seq
	}
	return Ref{}, fmt.Errorf("job %q was not enqueued: %d other callers came first with its key, each time: try again", s.job.Name, keyTries)
}

// enqueueUnder puts a job whose key is reserved. That another caller has done so
// already is well.
func (q *Queue) enqueueUnder(ctx context.Context, s *stored, existing bool) (Ref, error) {
	m := s.message()
	m.New = true
	err := q.put(ctx, m)
	switch {
	case err == nil:
		q.tallies.of(s.job.Queue).enqueued.Add(1)
	case !errors.Is(err, engine.ErrConflict):
		return q.notEnqueued(s, err)
	default:
		if err := q.settle(ctx); err != nil {
			return q.notEnqueued(s, err)
		}
	}
	return Ref{ID: s.id, Existing: existing, State: s.first()}, nil
}

// keyHolder finds the job that has the key of s. No id and no error means that
// the key is free: its record has the sequence number seq, or is gone.
func (q *Queue) keyHolder(ctx context.Context, s *stored, subject string) (ref Ref, seq uint64, err error) {
	m, err := q.engine.Get(ctx, engine.State, subject)
	if errors.Is(err, engine.ErrNotFound) {
		return Ref{}, 0, nil
	}
	if err != nil {
		return Ref{}, 0, storeError(err)
	}
	k, err := decodeKey(subject, m.Data)
	if err != nil {
		q.journal.emit(Event{Kind: Damaged, Queue: s.job.Queue, Text: err.Error()})
		return Ref{}, m.Seq, nil //nolint:nilerr // a damaged key is a free one
	}
	if k.state.Ended() {
		if time.Since(k.ended) > q.config.KeyWindow {
			return Ref{}, m.Seq, nil
		}
		q.tallies.of(s.job.Queue).duplicates.Add(1)
		return Ref{ID: k.id, Existing: true, State: k.state}, 0, nil
	}
	info, err := q.Get(ctx, k.id)
	for errors.Is(err, ErrNotFound) && time.Since(m.Time) < keyGrace {
		// The winner is between its two messages.
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return Ref{}, 0, context.Cause(ctx)
		}
		info, err = q.Get(ctx, k.id)
	}
	switch {
	case err == nil:
		q.tallies.of(s.job.Queue).duplicates.Add(1)
		return Ref{ID: k.id, Existing: true, State: info.State}, 0, nil
	case !errors.Is(err, ErrNotFound):
		return Ref{}, 0, err
	}
	if s.chain.first == s.id {
		s.chain.first = k.id
	}
	s.id, s.job.Priority, s.job.At = k.id, k.priority, k.at
	ref, err = q.enqueueUnder(ctx, s, true)
	return ref, 0, err
}
