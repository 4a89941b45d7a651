package run

import (
	"context"
	"errors"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// found is the result of looking up a job that may have run before.
type found struct {
	ended bool      // an outcome is recorded
	ran   bool      // it may have run
	later time.Time // it shall not run before this time
	moved bool      // another message of it has that time already
}

// lookUp reads what else is stored about a job. Only jobs that were or may have been
// delivered before need it.
func (a *attempt) lookUp(ctx context.Context) error {
	q := a.queue
	a.found = found{}
	e, err := q.Outcome(ctx, a.id())
	switch {
	case err == nil || errors.Is(err, job.ErrDamaged):
		a.found.ended = true
		if a.found.ran = a.delivery.Deliveries > 1 || a.delivery.Again; e != nil {
			a.found.ran = a.found.ran || e.Started()
		}
		return nil
	case !errors.Is(err, engine.ErrNotFound):
		return err
	}
	t, err := q.TriesOf(ctx, a.id())
	switch {
	case err == nil:
		a.tries, a.tried = t, true
	case errors.Is(err, job.ErrDamaged):
		q.Damaged(a.stored.Job.Queue, a.id(), err)
	case !errors.Is(err, engine.ErrNotFound):
		return err
	}
	if a.tries.RetryAt.After(time.Now()) {
		a.found.later = a.tries.RetryAt
		_, err := q.Engine.Get(ctx, engine.Jobs, "at."+a.id())
		if a.found.moved = err == nil; a.found.moved {
			err = q.Settle(ctx)
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	return nil
}

// startLookedUp continues with the result of the look-up, in the goroutine of Work.
func (a *attempt) startLookedUp() {
	q, d := a.queue, &a.delivery
	switch f := &a.found; {
	case f.ended:
		a.settled(f.ran)
		return
	case f.moved:
		d.Ack()
		a.answered()
		return
	case !f.later.IsZero():
		a.back(time.Until(f.later))
		return
	}
	// If no attempts are recorded, an earlier delivery to another node was the first
	// attempt. If some are, the record says whether an attempt has begun since.
	now := time.Now()
	if a.tries.Open || !a.tried && d.Orphan && !a.stored.Again {
		a.tries.Cut(now)
		a.runner.counters.Redelivered.Add(1)
		q.Journal.Emit(job.Event{Kind: job.Redelivered, Queue: a.stored.Job.Queue, Task: a.stored.Job.Name, Job: a.id(), Attempt: a.tries.Started + 1})
	}
	if a.tries.Lost >= a.policy.Nodes {
		a.conclude(decision{step: stepRecord, outcome: bullpen.Lost, reason: job.Quarantined}, attemptEnd{
			at: now, node: q.Config.Node, err: errNodesDied,
		})
		return
	}
	if !a.tried && a.tries.Lost == 0 {
		a.runner.ready = append(a.runner.ready, a)
		return
	}
	// From here on the record shows it if this node dies.
	a.tried, a.tries.Open = true, true
	a.runner.looking++
	q.Engine.Put(engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: a.tries.Encode(a.id())}, func(_ uint64, err error) {
		if err != nil && !q.Hopeless(err) {
			q.Journal.Emit(job.Event{Kind: job.NotKept, Job: a.id(), Text: "the start of another attempt: " + err.Error()})
		}
		a.runner.arrived(arrival{begun: a})
	})
}

var errNodesDied = errors.New("as many nodes died while they had it as its policy allows (Retry.Nodes)")

// corrupt buries a job whose record is damaged, without running it. The job's own Bury is
// unreadable, so the burial is the one of the WorkConfig.
func (a *attempt) corrupt(err error) {
	a.stored.Job.Bury = a.runner.config.Bury
	a.queue.Damaged(a.stored.Job.Queue, a.id(), err)
	a.conclude(decision{step: stepRecord, outcome: bullpen.Lost, reason: job.Corrupt}, attemptEnd{
		at: time.Now(), node: a.queue.Config.Node, err: err,
	})
}
