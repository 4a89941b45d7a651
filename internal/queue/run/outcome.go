package run

import (
	"context"
	"errors"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// ending returns the record of how the job ended.
func (a *attempt) ending(d decision, end attemptEnd) *record.End {
	j := &a.stored.Job
	e := &record.End{
		ID: a.stored.ID, Queue: j.Queue, Name: j.Name, Key: j.Key, Priority: j.Priority,
		Outcome: d.outcome, Reason: d.reason, Enqueued: a.stored.Enqueued, Ended: end.at,
		Stats: end.result.Stats, Node: a.queue.Config.Node, Tries: a.tries, Parent: a.stored.Parent, Compensate: j.Compensate, Bury: j.Bury,
		Schedule: a.stored.Schedule, Tick: a.stored.Tick,
		Chain: a.stored.Chain, Batch: a.stored.Batch, Index: a.stored.Index,
		Group: j.Group, Size: len(j.Payload),
	}
	e.Progress, e.Note, e.Lines = a.seen.snapshot()
	var te *bullpen.TaskError
	switch {
	case d.outcome == bullpen.OK:
		e.Result = end.result.Payload
		e.Next = a.stored.Next(e.Ended)
	case errors.As(end.err, &te):
		e.Failure = sound(te)
	case end.err != nil:
		e.Message = end.err.Error()
	case d.outcome == bullpen.Output:
		e.Failure = &bullpen.TaskError{
			Outcome: bullpen.Output, Task: j.Name, Worker: e.Stats.Worker, ExitCode: -1,
			Message: a.queue.Config.TooLarge(a.stored, len(end.result.Payload)),
		}
	}
	return e
}

// record stores how the job ended and its followers, and removes it from the queue. A job
// that failed for good is first put into the stream Dead. On a store that takes one
// message at a time, a crash in between may run the job once more, but never loses it.
func (a *attempt) record(d decision, end attemptEnd) {
	q, e := a.queue, a.ending(d, end)
	var puts []engine.Put
	if e.State() == job.Dead {
		dead := *e
		dead.Job = a.delivery.Data
		puts = append(puts, engine.Put{Stream: engine.Dead, Subject: "dead." + e.Queue + "." + e.ID, Data: dead.Encode(), Durable: true})
	} else {
		q.Config.KeepJob(e, a.delivery.Data)
	}
	puts = append(puts, engine.Put{Stream: engine.Outcomes, Subject: "out." + e.ID, Data: e.Encode(), Durable: true, New: true})
	if e.Key != "" {
		puts = append(puts, q.KeyEnded(e))
	}
	followers := jobs.Followers(e, a.stored, e.Started())
	all := slices.Clip(puts) // so that appending leaves puts alone
	for i := range followers {
		all = append(all, followers[i].Put())
	}
	apart := false
	q.Keep(e.ID, func(done func(error)) {
		a.delivery.End(all, func(err error) {
			if apart = err != nil && len(followers) > 0 && !errors.Is(err, engine.ErrConflict) && !q.Hopeless(err); apart {
				engine.PutAll(q.Engine, puts, done) // a full store may still have room for the end alone
				return
			}
			done(err)
		})
	}, func(err error) {
		switch {
		case err == nil:
			a.recorded(e, followers, apart)
		case errors.Is(err, engine.ErrConflict):
			a.settled(true)
		default:
			a.abandoned(err)
		}
	})
}

// recorded continues once the outcome survives a loss of power. With apart, the followers
// are not in the queue yet, and the job still is.
func (a *attempt) recorded(e *record.End, followers []jobs.Follower, apart bool) {
	q := a.queue
	a.runner.counters.Ended[e.Outcome].Add(1)
	if e.State() == job.Dead {
		q.Buried(e)
	}
	q.TellEnded(e, a.stored.Job.Meta)
	if apart {
		a.background(func(ctx context.Context) error { return q.EnqueueFollowers(ctx, e, followers) }, func() { a.ended(e) })
		return
	}
	q.FollowersPut(e, followers)
	a.ended(e)
}

// ended acknowledges the job, unless it left the queue with its outcome, and notifies the
// callers that wait for it.
func (a *attempt) ended(e *record.End) {
	a.delivery.Ack()
	a.clearUp()
	a.answered()
	a.queue.Announce(e)
}

// settled continues when another attempt or Cancel has recorded an outcome of the job.
// started means that this attempt may have run.
func (a *attempt) settled(started bool) {
	if from := a.state.State(); from != attemptStoring {
		if !a.move(from, attemptStoring) {
			return
		}
		a.freed(from, false)
		a.queue.Recording.Add(1)
	}
	q := a.queue
	var e *record.End
	var unread error
	a.background(func(ctx context.Context) (err error) {
		e, err = q.Outcome(ctx, a.id())
		switch {
		case errors.Is(err, job.ErrNewer):
			unread = err
			return nil
		case errors.Is(err, job.ErrDamaged):
			e, err = q.RenewOutcome(ctx, a.stored, err)
		}
		if err == nil {
			err = q.Settle(ctx) // the job leaves the queue now, so its outcome must be durable
		}
		if err != nil {
			return err
		}
		if err := q.SettleKey(ctx, e); err != nil {
			return err
		}
		return q.EnqueueFollowers(ctx, e, jobs.Followers(e, a.stored, started || e.Started()))
	}, func() {
		if unread != nil {
			a.leaveToNewer(unread)
			return
		}
		a.ended(e)
	})
}

// newerPause is the delay of a job whose end a later version has recorded.
const newerPause = time.Minute

// leaveToNewer gives back a job whose outcome only a later version can read. That version
// must handle what follows from the end, so the outcome is kept, and the job stays in the
// queue until a node of that version gets it.
func (a *attempt) leaveToNewer(err error) {
	a.queue.Journal.Emit(job.Event{Kind: job.Unreadable, Queue: a.stored.Job.Queue, Job: a.id(), Text: err.Error()})
	a.back(newerPause)
}

// clearUp removes what was stored of a job while it had not ended. Nothing waits for it:
// what remains is small and never read again.
func (a *attempt) clearUp() {
	live := a.liveSeq.Load()
	if !a.tried && live == 0 {
		return
	}
	q := a.queue
	q.Spawn(func() { // ends with its calls, at the latest with Live
		if live != 0 {
			q.Engine.Delete(q.Live, engine.State, live) //nolint:errcheck // it has a TTL
		}
		if !a.tried {
			return
		}
		if m, err := q.Engine.Get(q.Live, engine.State, "try."+a.id()); err == nil {
			q.Engine.Delete(q.Live, engine.State, m.Seq) //nolint:errcheck // see above
		}
	})
}

// retry records the attempts, then gives the job back for another one. For a short delay
// it goes back to its consumer. For a long one it is stored as a message with a time, so
// that it does not count against the jobs handed out.
func (a *attempt) retry(d decision, end attemptEnd) {
	q, t := a.queue, &a.tries
	a.runner.counters.Retried.Add(1)
	q.Journal.Emit(job.Event{Kind: job.Retried, Queue: a.stored.Job.Queue, Task: a.stored.Job.Name, Job: a.id(), Attempt: t.Started, Text: errorText(end.err)})
	far := d.delay > q.Config.Lease
	t.RetryAt = time.Time{}
	if d.delay > 0 {
		t.RetryAt = end.at.Add(d.delay)
	}
	a.tried, t.Open = true, false
	known := engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: t.Encode(a.id()), Durable: true}
	q.Keep(a.id(), func(done func(error)) { engine.PutAll(q.Engine, []engine.Put{known}, done) }, func(err error) {
		switch {
		case err != nil:
			a.abandoned(err)
		case far:
			a.reschedule(t.RetryAt)
		default:
			a.back(max(time.Until(t.RetryAt), 0))
		}
	})
}

func (a *attempt) reschedule(at time.Time) {
	s := *a.stored
	s.Again, s.Job.At = true, at
	a.queue.Keep(a.id(), func(done func(error)) { a.delivery.End([]engine.Put{s.Message()}, done) }, func(err error) {
		if err != nil {
			a.abandoned(err)
			return
		}
		a.answered()
	})
}

// giveBack returns a job that never started, at once and without spending an attempt. It
// records that the job was handed out and not started, or the delivery would count as the
// death of a node; losing that record does no further harm. Workers that died with the
// job are still counted.
func (a *attempt) giveBack() {
	q := a.queue
	if a.number.Load() > 0 {
		a.runner.counters.GaveBack.Add(1)
		q.Journal.Emit(job.Event{Kind: job.GaveBack, Queue: a.stored.Job.Queue, Task: a.stored.Job.Name, Job: a.id()})
	}
	a.tries.Open = false
	q.Engine.Put(engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: a.tries.Encode(a.id()), Durable: a.tries.Crashes > 0}, func(uint64, error) {
		a.back(0)
	})
}

// abandoned leaves alone a job whose end cannot be stored: the store is closed or has
// failed. The job runs again after its lease or after the next start, and at once if this
// program merely closes the queue.
func (a *attempt) abandoned(err error) {
	if !errors.Is(err, engine.ErrClosed) {
		a.queue.Journal.Emit(job.Event{Kind: job.NotKept, Queue: a.stored.Job.Queue, Job: a.id(), Text: err.Error()})
	}
	if a.queue.Live.Err() != nil {
		a.back(0)
		return
	}
	a.answered()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
