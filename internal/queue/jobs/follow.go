package jobs

import (
	"context"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Follower is a job that is enqueued because another has ended. Its id follows from that
// end, so that every reader of the outcome computes the same id, and it runs once,
// however often it is put.
type Follower struct {
	*record.Job

	event job.EventKind // emitted when the job is enqueued; 0 for none
}

// Followers returns the jobs to enqueue after the end e of s: the next of its chain, its
// compensation, and its burial. started reports whether s may have run.
func Followers(e *record.End, s *record.Job, started bool) (all []Follower) {
	if n := next(e, s); n != nil {
		all = append(all, Follower{Job: n})
	}
	if j := &s.Job; j.Compensate != "" && e.State() != job.Done && started {
		all = append(all, Undo(e, j.Compensate, j.Payload)...)
	}
	if s.Job.Bury != "" && e.State() == job.Dead {
		all = append(all, bury(e, &s.Job)...)
	}
	return all
}

// next returns the job that follows s in its chain, nil for none.
func next(e *record.End, s *record.Job) *record.Job {
	if e.Next == "" || len(s.Job.Then) == 0 {
		return nil
	}
	n := &record.Job{ID: e.Next, Job: s.Job.Then[0], Enqueued: e.Ended, Chain: s.Chain, Batch: s.Batch, Index: s.Index, Derived: true}
	n.Job.Payload, n.Job.Then = e.Result, s.Job.Then[1:]
	n.Chain.Number++
	if n.Job.Delay > 0 {
		n.Job.At, n.Job.Delay = e.Ended.Add(n.Job.Delay), 0
	}
	if !n.Job.At.After(time.Now()) {
		n.Job.At = time.Time{}
	}
	return n
}

// Undo returns the job that runs task to compensate the job that ended with e.
func Undo(e *record.End, task string, payload []byte) []Follower {
	return followerOf(e, job.Compensated, "undo", &record.Job{
		Undoes: e.Outcome.String(),
		Job:    job.Job{Name: task, Payload: payload, Meta: map[string]string{record.MetaTask: e.Name}},
	})
}

// bury returns the burial of j.
func bury(e *record.End, j *job.Job) []Follower {
	meta := map[string]string{
		record.MetaTask: e.Name, record.MetaReason: string(e.Reason), record.MetaOutcome: e.Outcome.String(), record.MetaError: errorLine(e.Err()),
	}
	for k, v := range j.Meta {
		if !strings.HasPrefix(k, "bullpen.") {
			meta[k] = v
		}
	}
	return followerOf(e, job.BuryEnqueued, "bury", &record.Job{Job: job.Job{Name: j.Bury, Payload: j.Payload, Meta: meta}})
}

// followerOf fills in what a follower takes from the ended job. It returns none if that
// job's id is not one of the queue's: another program put the job into the store.
func followerOf(e *record.End, event job.EventKind, kind string, s *record.Job) []Follower {
	id, err := ulid.ParseStrict(e.ID)
	if err != nil {
		return nil
	}
	s.ID, s.Derived, s.Enqueued, s.Parent = record.DerivedID(id.Timestamp(), kind, e.ID), true, e.Ended, e.ID
	s.Job.Queue, s.Job.Priority, s.Job.Group = e.Queue, e.Priority, e.Group
	return []Follower{{s, event}}
}

// Put returns the message that stores f unless it is stored already.
func (f *Follower) Put() engine.Put {
	m := f.Message()
	m.New = true
	return m
}

// EnqueueFollowers enqueues the followers of an end that is recorded.
func (q *Jobs) EnqueueFollowers(ctx context.Context, e *record.End, all []Follower) error {
	for i := range all {
		if _, err := q.EnqueueDerived(ctx, all[i].Job); err != nil {
			return err
		}
		q.reportFollower(e, &all[i])
	}
	return nil
}

// FollowersPut counts the followers that were put together with an end.
func (q *Jobs) FollowersPut(e *record.End, all []Follower) {
	for i := range all {
		q.Counters.Of(all[i].Job.Job.Queue).Enqueued.Add(1)
		q.reportFollower(e, &all[i])
	}
}

func (q *Jobs) reportFollower(e *record.End, f *Follower) {
	if f.event != 0 {
		q.Journal.Emit(job.Event{Kind: f.event, Queue: e.Queue, Task: f.Job.Job.Name, Job: e.ID, Text: "by " + f.ID})
	}
}
