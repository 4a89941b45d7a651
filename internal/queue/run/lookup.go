package run

import (
	"context"
	"errors"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// found is what the look-up of a job that may have run before has found.
type found struct {
	ended bool      // an outcome is recorded
	ran   bool      // it may have run
	later time.Time // it is to run at this time only
	moved bool      // another message of it has that time already
}

// lookUp reads what is stored of a job beside itself. It is done for those only
// that were handed out before, or may have been.
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

// startLookedUp goes on with what was found, in the goroutine of Work.
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
	// Without a record of its attempts, one that somebody else had was his first;
	// with one, that says whether an attempt has begun since.
	now := time.Now()
	if a.tries.Open || !a.tried && d.Orphan && !a.stored.Again {
		a.tries.Cut(now)
		a.runner.tally.Redelivered.Add(1)
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
	// From here on the death of this node is known by the record.
	a.tried, a.tries.Open = true, true
	a.runner.looking++
	q.Engine.Put(engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: a.tries.Encode(a.id())}, func(_ uint64, err error) {
		if err != nil && !q.Hopeless(err) {
			q.Journal.Emit(job.Event{Kind: job.NotKept, Job: a.id(), Text: "that another attempt begins: " + err.Error()})
		}
		a.runner.arrived(arrival{begun: a})
	})
}

var errNodesDied = errors.New("as many nodes died with it in hand as its policy allows (Retry.Nodes)")

// corrupt buries a job whose record is damaged. It is not run. What it says is not
// known, so that who works the queue says whom to tell.
func (a *attempt) corrupt(err error) {
	a.stored.Job.Bury = a.runner.config.Bury
	a.queue.Damaged(a.stored.Job.Queue, a.id(), err)
	a.conclude(decision{step: stepRecord, outcome: bullpen.Lost, reason: job.Corrupt}, attemptEnd{
		at: time.Now(), node: a.queue.Config.Node, err: err,
	})
}
