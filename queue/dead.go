package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// ListDead returns jobs that failed for good, with their evidence, in the order
// in which they died. It is List with f.State Dead.
func (q *Queue) ListDead(ctx context.Context, f Filter) (Page, error) {
	f.State = Dead
	return q.List(ctx, f)
}

// GetDead returns a dead job with its payload and evidence: the last lines of
// standard error are in its EndError's Task.Detail, signal, exit code and memory
// in its History.
func (q *Queue) GetDead(ctx context.Context, id string) (*Info, error) {
	_, e, s, err := q.dead(ctx, id)
	if err != nil {
		return nil, err
	}
	info := e.info()
	if s != nil {
		info.Payload, info.Meta, info.Deadline = s.job.Payload, s.job.Meta, s.job.Deadline
		info.PayloadSize = len(info.Payload)
	}
	return info, nil
}

// dead reads a dead job; s is nil where the job itself was damaged.
func (q *Queue) dead(ctx context.Context, id string) (m engine.Message, e *ending, s *stored, err error) {
	if err := checkID(id); err != nil {
		return m, nil, nil, err
	}
	m, err = q.engine.Get(ctx, engine.Dead, "dead.*."+id)
	if errors.Is(err, engine.ErrNotFound) {
		return m, nil, nil, fmt.Errorf("%w: %s is not among the dead", ErrNotFound, id)
	}
	if err != nil {
		return m, nil, nil, storeError(err)
	}
	e, err = decodeEnding(id, m.Data)
	if err != nil {
		return m, nil, nil, err
	}
	if s, err = decodeJob(id, e.job); err != nil {
		return m, e, nil, nil //nolint:nilerr // a job that is damaged is among the dead for that; the ending says so
	}
	s.job.Queue, s.job.Priority = e.queue, e.priority
	return m, e, s, nil
}

// RetryDead enqueues a dead job again, as a new job with attempts of its own
// whose Parent is the old one, and removes it from the dead. Called again after a
// crash in its midst it gives back the same new job. A deadline that has passed
// is left out. The chain of a job goes on when the new one ends well. A batch has
// counted the job as failed, and does not count the new one.
func (q *Queue) RetryDead(ctx context.Context, id string) (Ref, error) {
	m, e, s, err := q.dead(ctx, id)
	if err != nil {
		return Ref{}, err
	}
	if s == nil {
		return Ref{}, fmt.Errorf("job %s cannot be tried again: its payload is damaged (%s); enqueue it anew", id, e.message)
	}
	ref, err := q.putAgain(ctx, s, id, id)
	if err != nil {
		return ref, err
	}
	if err := q.engine.Delete(ctx, engine.Dead, m.Seq); err != nil {
		return ref, storeError(err)
	}
	q.journal.emit(Event{Kind: TriedAgain, Queue: e.queue, Task: e.name, Job: id, Text: "as " + ref.ID})
	return ref, nil
}

// RemoveDead forgets a dead job. Its outcome is kept as long as any other.
func (q *Queue) RemoveDead(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	m, err := q.engine.Get(ctx, engine.Dead, "dead.*."+id)
	if errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("%w: %s is not among the dead", ErrNotFound, id)
	}
	if err == nil {
		err = q.engine.Delete(ctx, engine.Dead, m.Seq)
	}
	return storeError(err)
}

// Pause stops handing out jobs of a queue on all nodes, durably. What runs goes
// on, and what was handed out already may still start; enqueuing goes on.
func (q *Queue) Pause(ctx context.Context, queue string) error { return q.pause(ctx, queue, true) }

// Resume starts handing out jobs of a queue again.
func (q *Queue) Resume(ctx context.Context, queue string) error { return q.pause(ctx, queue, false) }

func (q *Queue) pause(ctx context.Context, queue string, paused bool) error {
	if err := checkToken("queue", queue); err != nil {
		return err
	}
	for p := range Priority(priorities) {
		c := engine.Consumer{Queue: queue, Priority: p.String()}
		if err := q.engine.Pause(ctx, c, paused); err != nil {
			return storeError(err)
		}
	}
	// Jobs with a group wait in the nodes, which hold them there.
	if y := q.yard(queue); y != nil {
		y.pause(paused)
	}
	q.tellNodes("pause", queue)
	kind := Resumed
	if paused {
		kind = Paused
	}
	q.journal.emit(Event{Kind: kind, Queue: queue})
	return nil
}

// Depth is how much a queue has.
type Depth struct {
	Queue    string
	Priority Priority
	// Waiting jobs can start; Taken ones are in the hands of nodes or wait a
	// short time for another attempt. Scheduled jobs are counted nowhere here.
	Waiting, Taken int
	// Held are those of Waiting which only the limits of their groups keep from
	// starting, as far as this node knows.
	Held int
	// Oldest is when the job that has been here longest was stored; zero for none.
	Oldest time.Time
	Paused bool
}

// Depth returns how much waits in a queue, by priority. It asks the store.
func (q *Queue) Depth(ctx context.Context, queue string) ([]Depth, error) {
	if err := checkToken("queue", queue); err != nil {
		return nil, err
	}
	all := make([]Depth, 0, priorities)
	for _, p := range []Priority{High, Normal, Low} {
		d, err := q.engine.Depth(ctx, engine.Consumer{Queue: queue, Priority: p.String()})
		if err != nil {
			return nil, storeError(err)
		}
		g, err := q.engine.Depth(ctx, engine.Consumer{Queue: queue, Priority: p.String(), Grouped: true})
		if err != nil {
			return nil, storeError(err)
		}
		// What waits in this node for its turn is taken for the store only.
		kept, held := 0, 0
		if y := q.yard(queue); y != nil {
			kept, held = y.keeps(p)
			if kept = min(kept, g.Taken); held > 0 && held >= kept {
				held = kept + g.Waiting // what waits behind them too
			}
		}
		if d.Oldest.IsZero() || !g.Oldest.IsZero() && g.Oldest.Before(d.Oldest) {
			d.Oldest = g.Oldest
		}
		all = append(all, Depth{
			Queue: queue, Priority: p, Waiting: d.Waiting + g.Waiting + kept, Taken: d.Taken + g.Taken - kept, Held: held,
			Paused: d.Paused, Oldest: d.Oldest,
		})
	}
	return all, nil
}

// compensate enqueues the job that undoes another, once.
func (q *Queue) compensate(ctx context.Context, e *ending, task string, payload []byte) error {
	s := &stored{
		id: ulid.Make().String(), enqueued: e.ended, parent: e.id, undoes: e.outcome.String(),
		job: Job{
			Queue: e.queue, Name: task, Payload: payload, Priority: e.priority,
			Key: "bullpen.undo/" + e.id, Group: e.group, Meta: map[string]string{metaTask: e.name},
		},
	}
	_, err := q.enqueueKeyed(ctx, s)
	if err == nil {
		q.journal.emit(Event{Kind: Compensated, Queue: e.queue, Task: task, Job: e.id, Text: "by " + s.id})
	}
	return err
}

// bury enqueues the job that is told of the death of another, once.
func (q *Queue) bury(ctx context.Context, e *ending, j *Job) error {
	meta := map[string]string{
		metaTask: e.name, metaReason: string(e.reason), metaOutcome: e.outcome.String(), metaError: errorLine(e.err()),
	}
	for k, v := range j.Meta {
		if !strings.HasPrefix(k, "bullpen.") {
			meta[k] = v
		}
	}
	id, err := ulid.ParseStrict(e.id)
	if err != nil {
		return nil //nolint:nilerr // no job of ours has such an id: somebody else put it into the store
	}
	s := &stored{
		id: derivedID(id.Timestamp(), "bury", e.id), enqueued: time.Now(), parent: e.id,
		job: Job{Queue: e.queue, Name: j.Bury, Payload: j.Payload, Priority: e.priority, Group: e.group, Meta: meta},
	}
	if _, err := q.enqueueDerived(ctx, s); err != nil {
		return err
	}
	q.journal.emit(Event{Kind: ToldOfDeath, Queue: e.queue, Task: j.Bury, Job: e.id, Text: "by " + s.id})
	return nil
}

// started tells whether the handler of an ended job may have run.
func (e *ending) started() bool {
	return e.tries.started > 0 || e.tries.crashes > 0 || e.failure != nil && e.failure.Outcome != bullpen.OK
}
