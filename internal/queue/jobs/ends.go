package jobs

import (
	"context"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TellEnded calls Config.Ended for an end that this program has recorded.
func (q *Jobs) TellEnded(e *record.End, meta map[string]string) {
	if q.Config.Ended == nil {
		return
	}
	i := e.Info()
	i.Meta = meta
	q.Config.Ended(i)
}

// Buried counts a job that has died, and emits an event.
func (q *Jobs) Buried(e *record.End) {
	t := q.Counters.Of(e.Queue)
	t.Dead.Add(1)
	if e.Reason == job.Quarantined {
		t.Quarantined.Add(1)
	}
	q.Journal.Emit(job.Event{Kind: job.Buried, Queue: e.Queue, Task: e.Name, Job: e.ID, Attempt: e.Tries.Started, Text: string(e.Reason) + ": " + e.Err().Error()})
}

// RenewOutcome replaces a damaged outcome by a readable record, which says that the job
// has ended and that its outcome is lost.
func (q *Jobs) RenewOutcome(ctx context.Context, s *record.Job, damage error) (*record.End, error) {
	m, err := q.Engine.Get(ctx, engine.Outcomes, "out."+s.ID)
	if err != nil {
		return nil, err
	}
	e := &record.End{
		ID: s.ID, Queue: s.Job.Queue, Name: s.Job.Name, Key: s.Job.Key, Priority: s.Job.Priority, Outcome: bullpen.Lost,
		Reason: job.Corrupt, Enqueued: s.Enqueued, Ended: time.Now(), Node: q.Config.Node, Message: damage.Error(), Parent: s.Parent,
		Schedule: s.Schedule, Tick: s.Tick,
		Chain: s.Chain, Batch: s.Batch, Index: s.Index,
		Group: s.Job.Group,
	}
	err = q.Put(ctx, engine.Put{Stream: engine.Outcomes, Subject: "out." + s.ID, Data: e.Encode(), Durable: true, After: m.Seq})
	if err != nil {
		return nil, err
	}
	q.Damaged(e.Queue, e.ID, damage)
	return e, nil
}
