package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// errTakenBack is the cause of the contexts of jobs that are canceled.
var errTakenBack = errors.New("the job was canceled")

// Cancel takes a job back. When it returns nil the outcome canceled is recorded
// and survives a loss of power: the job will not start any more. If it runs, its
// handler is asked to end and killed where the executor can; what it answers then
// is not recorded. The error is ErrEnded when the job had ended, ErrNotFound when
// it is not there.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	for {
		info, err := q.Get(ctx, id)
		if err != nil {
			return err
		}
		if info.State.Ended() {
			return fmt.Errorf("%w: %s is %v", ErrEnded, id, info.State)
		}
		done, err := q.takeBack(ctx, info)
		if done || err != nil {
			return err
		}
	}
}

// takeBack records that a job is canceled, and clears up behind it. Not done and
// no error means that it ended meanwhile.
func (q *Queue) takeBack(ctx context.Context, info *Info) (done bool, err error) {
	e := &ending{
		id: info.ID, queue: info.Queue, name: info.Name, key: info.Key, priority: info.Priority,
		outcome: bullpen.Canceled, reason: TakenBack, enqueued: info.Enqueued, ended: time.Now(), node: q.config.Node,
		message: "taken back while " + info.State.String(), parent: info.Parent, compensate: info.Compensate, bury: info.Bury, group: info.Group,
		tries: tries{started: info.Attempts, crashes: info.Crashes, history: info.History},
		chain: place{info.Chain, info.Link, info.Links}, batch: info.Batch, index: info.Index,
		schedule: info.Schedule, tick: info.Tick, size: info.PayloadSize,
	}
	e.keep(info.record, &q.config)
	err = q.put(ctx, engine.Put{Stream: engine.Outcomes, Subject: "out." + e.id, Data: e.encode(), Durable: true, New: true})
	if errors.Is(err, engine.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	q.tallies.of(e.queue).ended[bullpen.Canceled].Add(1)
	q.journal.emit(Event{Kind: TookBack, Queue: e.queue, Task: e.name, Job: e.id, Text: info.State.String()})
	q.tellEnded(e, info.Meta)
	q.announce(e)
	q.interrupt(e.id)
	if q.engine.Shared() {
		q.engine.Send("cancel", []byte(e.id)) //nolint:errcheck // a node that does not hear it finds out at the end
	}
	q.endKey(e)
	if info.Compensate != "" && (info.Attempts > 0 || info.State == Running) {
		if err := q.compensate(ctx, e, info.Compensate, info.Payload); err != nil {
			return true, err
		}
	}
	return true, q.sweep(ctx, e.id)
}

// sweep removes the messages of a job whose outcome is recorded. A job in the
// hands of a node is left to it.
func (q *Queue) sweep(ctx context.Context, id string) error {
	if q.held(id) {
		return nil
	}
	for _, of := range []struct {
		stream  engine.Stream
		subject string
	}{{engine.Jobs, "at." + id}, {engine.Jobs, "job.*.*." + id}, {engine.State, "try." + id}, {engine.State, "live." + id}} {
		m, err := q.engine.Get(ctx, of.stream, of.subject)
		if err == nil {
			err = q.engine.Delete(ctx, of.stream, m.Seq)
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return storeError(err)
		}
	}
	return nil
}

func (q *Queue) held(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hands[id] != nil
}

// interrupt cancels a job that this node has in hand, or that waits in it for its
// turn.
func (q *Queue) interrupt(id string) {
	q.mu.Lock()
	q.takenBack.add(id, time.Now())
	a := q.hands[id]
	yards := slices.Collect(maps.Values(q.yards))
	q.mu.Unlock()
	if a != nil {
		a.cancel(errTakenBack)
		return
	}
	for _, y := range yards {
		if y.remove(id) {
			return
		}
	}
}

// endKey notes with the key of a job that it has ended, from when on the key
// stands for it for a while only.
func (q *Queue) endKey(e *ending) {
	if e.key == "" {
		return
	}
	q.engine.Put(q.keyEnded(e), func(_ uint64, err error) {
		if err != nil && !errors.Is(err, engine.ErrClosed) {
			q.journal.emit(Event{Kind: NotKept, Queue: e.queue, Job: e.id, Text: "the end of its key: " + err.Error()})
		}
	})
}

// keyEnded is the record of a key whose job has ended.
func (q *Queue) keyEnded(e *ending) engine.Put {
	subject := keySubject(e.queue, e.key)
	return engine.Put{
		Stream: engine.State, Subject: subject, TTL: max(q.config.KeyWindow, time.Second),
		Data: keyRecord{id: e.id, state: e.state(), ended: e.ended}.encode(subject),
	}
}

// settleKey does what endKey does for a job that ended earlier, in case that was
// cut off. A key that stands for another job by now is left alone.
func (q *Queue) settleKey(ctx context.Context, e *ending) error {
	if e.key == "" {
		return nil
	}
	subject := keySubject(e.queue, e.key)
	m, err := q.engine.Get(ctx, engine.State, subject)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if k, err := decodeKey(subject, m.Data); err == nil && k.id == e.id && !k.state.Ended() {
		q.endKey(e)
	}
	return nil
}
