package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// EndKey records that the job of a key has ended. From then on the key expires after
// Config.KeyWindow.
func (q *Jobs) EndKey(e *record.End) {
	if e.Key == "" {
		return
	}
	q.Engine.Put(q.KeyEnded(e), func(_ uint64, err error) {
		if err != nil && !errors.Is(err, engine.ErrClosed) {
			q.Journal.Emit(job.Event{Kind: job.NotKept, Queue: e.Queue, Job: e.ID, Text: "the end of its key: " + err.Error()})
		}
	})
}

// KeyEnded returns the Put that records the end of a key's job.
func (q *Jobs) KeyEnded(e *record.End) engine.Put {
	subject := record.KeySubject(e.Queue, e.Key)
	return engine.Put{
		Stream: engine.State, Subject: subject, TTL: max(q.Config.KeyWindow, time.Second),
		Data: record.Key{ID: e.ID, State: e.State(), Ended: e.Ended}.Encode(subject),
	}
}

// SettleKey repeats EndKey for a job that ended earlier, in case EndKey was cut off. It
// leaves a key alone that now belongs to another job.
func (q *Jobs) SettleKey(ctx context.Context, e *record.End) error {
	if e.Key == "" {
		return nil
	}
	subject := record.KeySubject(e.Queue, e.Key)
	m, err := q.Engine.Get(ctx, engine.State, subject)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if k, err := record.DecodeKey(subject, m.Data); err == nil && k.ID == e.ID && !k.State.Ended() {
		q.EndKey(e)
	}
	return nil
}
