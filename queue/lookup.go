package queue

import (
	"context"
	"errors"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
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
	e, err := q.outcome(ctx, a.id())
	switch {
	case err == nil || errors.Is(err, ErrDamaged):
		a.found.ended = true
		if a.found.ran = a.delivery.Deliveries > 1 || a.delivery.Again; e != nil {
			a.found.ran = a.found.ran || e.started()
		}
		return nil
	case !errors.Is(err, engine.ErrNotFound):
		return err
	}
	t, err := q.triesOf(ctx, a.id())
	switch {
	case err == nil:
		a.tries, a.tried = t, true
	case errors.Is(err, errCorrupt):
		q.damaged(a.stored.job.Queue, a.id(), err)
	case !errors.Is(err, engine.ErrNotFound):
		return err
	}
	if a.tries.retryAt.After(time.Now()) {
		a.found.later = a.tries.retryAt
		_, err := q.engine.Get(ctx, engine.Jobs, "at."+a.id())
		if a.found.moved = err == nil; a.found.moved {
			err = q.settle(ctx)
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
	if a.tries.open || !a.tried && d.Orphan && !a.stored.again {
		a.tries.cut(now)
		a.runner.tally.redelivered.Add(1)
		q.journal.emit(Event{Kind: Redelivered, Queue: a.stored.job.Queue, Task: a.stored.job.Name, Job: a.id(), Attempt: a.tries.started + 1})
	}
	if a.tries.lost >= a.policy.Nodes {
		a.conclude(decision{step: stepRecord, outcome: bullpen.Lost, reason: Quarantined}, attemptEnd{
			at: now, node: q.config.Node, err: errNodesDied,
		})
		return
	}
	if !a.tried && a.tries.lost == 0 {
		a.runner.ready = append(a.runner.ready, a)
		return
	}
	// From here on the death of this node is known by the record.
	a.tried, a.tries.open = true, true
	a.runner.looking++
	q.engine.Put(engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: a.tries.encode(a.id())}, func(_ uint64, err error) {
		if err != nil && !q.hopeless(err) {
			q.journal.emit(Event{Kind: NotKept, Job: a.id(), Text: "that another attempt begins: " + err.Error()})
		}
		a.runner.arrived(arrival{begun: a})
	})
}

var errNodesDied = errors.New("as many nodes died with it in hand as its policy allows (Retry.Nodes)")

// corrupt buries a job whose record is damaged. It is not run. What it says is not
// known, so that who works the queue says whom to tell.
func (a *attempt) corrupt(err error) {
	a.stored.job.Bury = a.runner.config.Bury
	a.queue.damaged(a.stored.job.Queue, a.id(), err)
	a.conclude(decision{step: stepRecord, outcome: bullpen.Lost, reason: Corrupt}, attemptEnd{
		at: time.Now(), node: a.queue.config.Node, err: err,
	})
}

func (q *Queue) damaged(queue, id string, err error) {
	q.count.damaged.Add(1)
	q.journal.emit(Event{Kind: Damaged, Queue: queue, Job: id, Text: err.Error()})
}
