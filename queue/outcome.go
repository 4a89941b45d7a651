package queue

import (
	"context"
	"errors"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// ending gives the record of how the job ended.
func (a *attempt) ending(d decision, end attemptEnd) *ending {
	j := &a.stored.job
	e := &ending{
		id: a.stored.id, queue: j.Queue, name: j.Name, key: j.Key, priority: j.Priority,
		outcome: d.outcome, reason: d.reason, enqueued: a.stored.enqueued, ended: end.at,
		stats: end.result.Stats, node: a.queue.config.Node, tries: a.tries, parent: a.stored.parent, compensate: j.Compensate, bury: j.Bury,
		schedule: a.stored.schedule, tick: a.stored.tick,
		chain: a.stored.chain, batch: a.stored.batch, index: a.stored.index,
		group: j.Group, size: len(j.Payload),
	}
	e.progress, e.note, e.lines = a.seen.snapshot()
	var te *bullpen.TaskError
	switch {
	case d.outcome == bullpen.OK:
		e.result = end.result.Payload
		e.next = a.stored.next(e.ended)
	case errors.As(end.err, &te):
		e.failure = sound(te)
	case end.err != nil:
		e.message = end.err.Error()
	case d.outcome == bullpen.Output:
		e.failure = &bullpen.TaskError{
			Outcome: bullpen.Output, Task: j.Name, Worker: e.stats.Worker, ExitCode: -1,
			Message: a.stored.tooLarge(len(end.result.Payload), &a.queue.config),
		}
	}
	return e
}

// record stores how the job ended. One that failed for good is put among the dead
// first, so that a crash in between runs it once more at most, but never loses it.
// Where nothing follows from the end, the job leaves the queue with it.
func (a *attempt) record(d decision, end attemptEnd) {
	q, e := a.queue, a.ending(d, end)
	var puts []engine.Put
	if e.state() == Dead {
		dead := *e
		dead.job = a.delivery.Data
		puts = append(puts, engine.Put{Stream: engine.Dead, Subject: "dead." + e.queue + "." + e.id, Data: dead.encode(), Durable: true})
	} else {
		e.keep(a.delivery.Data, &q.config)
	}
	puts = append(puts, engine.Put{Stream: engine.Outcomes, Subject: "out." + e.id, Data: e.encode(), Durable: true, New: true})
	store := a.delivery.End
	if e.next != "" || a.follows(e, e.started()) != nil {
		store = func(puts []engine.Put, done func(error)) { engine.PutAll(q.engine, puts, done) }
	} else if e.key != "" {
		puts = append(puts, q.keyEnded(e))
	}
	q.keep(e.id, func(done func(error)) { store(puts, done) }, func(err error) {
		switch {
		case err == nil:
			a.recorded(e)
		case errors.Is(err, engine.ErrConflict):
			a.settled(true)
		default:
			a.abandoned(err)
		}
	})
}

// recorded goes on when the outcome survives a loss of power.
func (a *attempt) recorded(e *ending) {
	q := a.queue
	a.runner.tally.ended[e.outcome].Add(1)
	if e.state() == Dead {
		q.buried(e)
	}
	q.tellEnded(e, a.stored.job.Meta)
	if follow := a.follows(e, e.started()); follow != nil {
		q.endKey(e)
		a.background(follow, func() { a.ended(e) })
		return
	}
	if e.next != "" {
		q.endKey(e)
		a.background(func(ctx context.Context) error { return q.goOn(ctx, e, a.stored) }, func() { a.ended(e) })
		return
	}
	a.ended(e)
}

// follows gives what enqueues the jobs that follow from the end of this one, nil
// where there are none. It may be called again: each is enqueued once. started says
// that the job may have run.
func (a *attempt) follows(e *ending, started bool) func(context.Context) error {
	q, j := a.queue, &a.stored.job
	undo := e.state() != Done && j.Compensate != "" && started
	bury := e.state() == Dead && j.Bury != ""
	if !undo && !bury {
		return nil
	}
	return func(ctx context.Context) error {
		if undo {
			if err := q.compensate(ctx, e, j.Compensate, j.Payload); err != nil {
				return err
			}
		}
		if !bury {
			return nil
		}
		return q.bury(ctx, e, j)
	}
}

// ended acknowledges the job, if it has not left the queue with its outcome, and tells
// who waits for it.
func (a *attempt) ended(e *ending) {
	a.delivery.Ack()
	a.clearUp()
	a.answered()
	a.queue.announce(e)
}

// tellEnded tells Config.Ended of an end that this program has recorded.
func (q *Queue) tellEnded(e *ending, meta map[string]string) {
	if q.config.Ended == nil {
		return
	}
	i := e.info()
	i.Meta = meta
	q.config.Ended(i)
}

func (q *Queue) buried(e *ending) {
	t := q.tallies.of(e.queue)
	t.dead.Add(1)
	if e.reason == Quarantined {
		t.quarantined.Add(1)
	}
	q.journal.emit(Event{Kind: Buried, Queue: e.queue, Task: e.name, Job: e.id, Attempt: e.tries.started, Text: string(e.reason) + ": " + e.err().Error()})
}

// settled goes on when the job has an outcome that another attempt or Cancel has
// recorded. started says that this attempt may have run.
func (a *attempt) settled(started bool) {
	if from := a.state.State(); from != attemptStoring {
		if !a.move(from, attemptStoring) {
			return
		}
		a.freed(from, false)
		a.queue.count.recording.Add(1)
	}
	q := a.queue
	var e *ending
	var unread error
	a.background(func(ctx context.Context) (err error) {
		e, err = q.outcome(ctx, a.id())
		switch {
		case errors.Is(err, ErrNewer):
			unread = err
			return nil
		case errors.Is(err, ErrDamaged):
			e, err = q.renewOutcome(ctx, a.stored, err)
		}
		if err == nil {
			err = q.settle(ctx) // the job leaves the queue now, so its outcome must be there to stay
		}
		if err != nil {
			return err
		}
		if err := q.settleKey(ctx, e); err != nil {
			return err
		}
		if follow := a.follows(e, started || e.started()); follow != nil {
			return follow(ctx)
		}
		return q.goOn(ctx, e, a.stored)
	}, func() {
		if unread != nil {
			a.leaveToNewer(unread)
			return
		}
		a.ended(e)
	})
}

// newerPause is how long a job rests whose end a later version has recorded.
const newerPause = time.Minute

// leaveToNewer gives a job back whose outcome only a later version can read. What
// follows from the end is for that version to do: the outcome is kept, and the job
// stays until it comes to a node that can.
func (a *attempt) leaveToNewer(err error) {
	a.queue.journal.emit(Event{Kind: Unreadable, Queue: a.stored.job.Queue, Job: a.id(), Text: err.Error()})
	a.back(newerPause)
}

// renewOutcome puts a readable record in the place of a damaged outcome: the job
// has ended, and how is lost.
func (q *Queue) renewOutcome(ctx context.Context, s *stored, damage error) (*ending, error) {
	m, err := q.engine.Get(ctx, engine.Outcomes, "out."+s.id)
	if err != nil {
		return nil, err
	}
	e := &ending{
		id: s.id, queue: s.job.Queue, name: s.job.Name, key: s.job.Key, priority: s.job.Priority, outcome: bullpen.Lost,
		reason: Corrupt, enqueued: s.enqueued, ended: time.Now(), node: q.config.Node, message: damage.Error(), parent: s.parent,
		schedule: s.schedule, tick: s.tick,
		chain: s.chain, batch: s.batch, index: s.index,
		group: s.job.Group,
	}
	err = q.put(ctx, engine.Put{Stream: engine.Outcomes, Subject: "out." + s.id, Data: e.encode(), Durable: true, After: m.Seq})
	if err != nil {
		return nil, err
	}
	q.damaged(e.queue, e.id, damage)
	return e, nil
}

// clearUp removes what was stored of a job while it was not done. Nobody waits
// for it: what stays is small, and is looked at no more.
func (a *attempt) clearUp() {
	live := a.liveSeq.Load()
	if !a.tried && live == 0 {
		return
	}
	q := a.queue
	q.spawn(func() { // ends with its calls, at the latest with live
		if live != 0 {
			q.engine.Delete(q.live, engine.State, live) //nolint:errcheck // it has a TTL
		}
		if !a.tried {
			return
		}
		if m, err := q.engine.Get(q.live, engine.State, "try."+a.id()); err == nil {
			q.engine.Delete(q.live, engine.State, m.Seq) //nolint:errcheck // see above
		}
	})
}

// retry stores what is known of the attempts, then gives the job back for
// another: to its consumer when that is soon, else as a message with a time, so
// that a long wait takes up no place among the jobs that are handed out.
func (a *attempt) retry(d decision, end attemptEnd) {
	q, t := a.queue, &a.tries
	a.runner.tally.retried.Add(1)
	q.journal.emit(Event{Kind: Retried, Queue: a.stored.job.Queue, Task: a.stored.job.Name, Job: a.id(), Attempt: t.started, Text: errorText(end.err)})
	far := d.delay > q.config.Lease
	t.retryAt = time.Time{}
	if d.delay > 0 {
		t.retryAt = end.at.Add(d.delay)
	}
	a.tried, t.open = true, false
	known := engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: t.encode(a.id()), Durable: true}
	q.keep(a.id(), func(done func(error)) { engine.PutAll(q.engine, []engine.Put{known}, done) }, func(err error) {
		switch {
		case err != nil:
			a.abandoned(err)
		case far:
			a.reschedule(t.retryAt)
		default:
			a.back(max(time.Until(t.retryAt), 0))
		}
	})
}

func (a *attempt) reschedule(at time.Time) {
	s := *a.stored
	s.again, s.job.At = true, at
	a.queue.keep(a.id(), func(done func(error)) { a.delivery.End([]engine.Put{s.message()}, done) }, func(err error) {
		if err != nil {
			a.abandoned(err)
			return
		}
		a.answered()
	})
}

// giveBack returns a job that never started, at once and without an attempt
// spent. That it was handed out and not started is stored, or it would count as
// the death of a node; losing that does no harm beyond this. Workers that died with
// it in hand are not forgotten.
func (a *attempt) giveBack() {
	q := a.queue
	if a.number.Load() > 0 {
		a.runner.tally.gaveBack.Add(1)
		q.journal.emit(Event{Kind: GaveBack, Queue: a.stored.job.Queue, Task: a.stored.job.Name, Job: a.id()})
	}
	a.tries.open = false
	q.engine.Put(engine.Put{Stream: engine.State, Subject: "try." + a.id(), Data: a.tries.encode(a.id()), Durable: a.tries.crashes > 0}, func(uint64, error) {
		a.back(0)
	})
}

// abandoned leaves a job alone whose end cannot be stored: the store is closed or
// has failed. It runs again after its lease, or after the next start; at once where
// nothing is wrong but that this program closes it.
func (a *attempt) abandoned(err error) {
	if !errors.Is(err, engine.ErrClosed) {
		a.queue.journal.emit(Event{Kind: NotKept, Queue: a.stored.job.Queue, Job: a.id(), Text: err.Error()})
	}
	if a.queue.live.Err() != nil {
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
