package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Get returns what there is to know of a job: of one that waits or runs, and of
// one that has ended as long as its outcome is kept (Config.Keep). Otherwise the
// error is ErrNotFound. It costs two to five reads.
func (q *Queue) Get(ctx context.Context, id string) (*Info, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	// A job moves from its time to its queue to its outcome, so that looking in
	// this order finds it; only one that is tried again later moves back.
	for range 2 {
		for _, look := range []func(context.Context, string) (*Info, error){q.getScheduled, q.getQueued, q.getEnded} {
			info, err := look(ctx, id)
			if !errors.Is(err, engine.ErrNotFound) {
				return info, storeError(err)
			}
		}
	}
	return nil, fmt.Errorf("%w: %s is not in the queue, or ended so long ago that its outcome is no more kept", ErrNotFound, id)
}

func checkID(id string) error {
	if _, err := ulid.ParseStrict(id); err != nil {
		return fmt.Errorf("%w: %q is not an id of a job: use the 26 characters that Enqueue gave", ErrNotFound, id)
	}
	return nil
}

func (q *Queue) getScheduled(ctx context.Context, id string) (*Info, error) {
	m, err := q.engine.Get(ctx, engine.Jobs, "at."+id)
	if err != nil {
		return nil, err
	}
	return q.waiting(ctx, m)
}

func (q *Queue) getQueued(ctx context.Context, id string) (*Info, error) {
	m, err := q.engine.Get(ctx, engine.Jobs, "job.*.*."+id)
	if err != nil {
		return nil, err
	}
	return q.waiting(ctx, m)
}

func (q *Queue) getEnded(ctx context.Context, id string) (*Info, error) {
	e, err := q.outcome(ctx, id)
	if err != nil {
		return nil, err
	}
	info := e.info()
	if s := e.kept(); s != nil && info.State != Dead {
		info.Payload, info.Meta, info.Deadline = s.job.Payload, s.job.Meta, s.job.Deadline
	}
	return info, nil
}

// outcome reads the recorded outcome of a job.
func (q *Queue) outcome(ctx context.Context, id string) (*ending, error) {
	m, err := q.engine.Get(ctx, engine.Outcomes, "out."+id)
	if err != nil {
		return nil, err
	}
	return decodeEnding(id, m.Data)
}

// parseSubject gives what the subject of a job says of it. Of one that is
// scheduled that is the subject on which it will appear.
func parseSubject(m engine.Message) (c engine.Consumer, id string, ok bool) {
	subject := m.Subject
	if m.Target != "" {
		subject = m.Target
	}
	return engine.ParseJob(subject)
}

// waiting tells what is known of a job that has not ended.
func (q *Queue) waiting(ctx context.Context, m engine.Message) (*Info, error) {
	info, err := queued(m)
	if err != nil {
		return nil, err
	}
	// One that was canceled may still be on its way out.
	if ended, err := q.getEnded(ctx, info.ID); !errors.Is(err, engine.ErrNotFound) {
		return ended, err
	}
	t, err := q.triesOf(ctx, info.ID)
	if err != nil && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	info.Attempts, info.Crashes, info.History = t.started, t.crashes, t.history
	if n := len(t.history); n > 0 {
		last := t.history[n-1]
		info.Node, info.Worker, info.Outcome = last.Node, last.Worker, last.Outcome
	}
	if !m.At.IsZero() {
		info.At, info.State = m.At, Scheduled
		if t.started > 0 {
			info.State = Retrying
		}
		return info, nil
	}
	info.At = t.retryAt
	if !t.retryAt.IsZero() {
		info.State = Retrying
	}
	return info, q.addLive(ctx, info)
}

// queued tells what the stored job itself says.
func queued(m engine.Message) (*Info, error) {
	c, id, ok := parseSubject(m)
	if !ok {
		return nil, fmt.Errorf("%w: subject %q is not of a job", errCorrupt, m.Subject)
	}
	s, err := decodeJob(id, m.Data)
	if err != nil {
		return nil, err
	}
	p, err := ParsePriority(c.Priority)
	if err != nil {
		return nil, err
	}
	j := &s.job
	return &Info{
		ID: id, Queue: c.Queue, Name: j.Name, Key: j.Key, Priority: p, State: Queued,
		Enqueued: s.enqueued, Deadline: j.Deadline, Payload: j.Payload, PayloadSize: len(j.Payload), Meta: j.Meta, Parent: s.parent,
		Schedule: s.schedule, Tick: s.tick, Batch: s.batch, Index: s.index,
		Chain: s.chain.first, Link: s.chain.number, Links: s.chain.of,
		Compensate: j.Compensate, Bury: j.Bury, Group: j.Group,
		record: m.Data,
	}, nil
}

func (q *Queue) triesOf(ctx context.Context, id string) (tries, error) {
	m, err := q.engine.Get(ctx, engine.State, "try."+id)
	if err != nil {
		return tries{}, err
	}
	return decodeTries(id, m.Data)
}

// addLive adds what is known of a job that runs: here, or on another node when it
// has run for some time.
func (q *Queue) addLive(ctx context.Context, info *Info) error {
	q.mu.Lock()
	a := q.hands[info.ID]
	q.mu.Unlock()
	if a != nil {
		if a.state.State() != attemptTaken {
			info.State = Running
		}
		info.Node = q.config.Node
		info.Attempts = max(info.Attempts, int(a.number.Load()))
		info.Progress, info.Note, info.Lines = a.seen.snapshot()
		return nil
	}
	m, err := q.engine.Get(ctx, engine.State, "live."+info.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := decodeEnding(info.ID, m.Data)
	if err != nil {
		return nil //nolint:nilerr // it is not needed to know the job
	}
	info.State, info.Node = Running, e.node
	info.Attempts = max(info.Attempts, e.tries.started)
	info.Progress, info.Note, info.Lines = e.progress, e.note, e.lines
	return nil
}
