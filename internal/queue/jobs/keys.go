package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// EndKey notes with the key of a job that it has ended, from when on the key
// stands for it for a while only.
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

// KeyEnded is the record of a key whose job has ended.
func (q *Jobs) KeyEnded(e *record.End) engine.Put {
	subject := record.KeySubject(e.Queue, e.Key)
	return engine.Put{
		Stream: engine.State, Subject: subject, TTL: max(q.Config.KeyWindow, time.Second),
		Data: record.Key{ID: e.ID, State: e.State(), Ended: e.Ended}.Encode(subject),
	}
}

// SettleKey does what EndKey does for a job that ended earlier, in case that was
// cut off. A key that stands for another job by now is left alone.
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
