package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
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
	return e.info(), nil
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
	t := strings.Split(subject, ".")
	if len(t) != 4 || t[0] != "job" {
		return engine.Consumer{}, "", false
	}
	return engine.Consumer{Queue: t[1], Priority: t[2]}, t[3], true
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
		Enqueued: s.enqueued, Deadline: j.Deadline, Payload: j.Payload, Meta: j.Meta, Parent: s.parent,
		Compensate: j.Compensate, Batch: s.batch, Index: s.index,
		Chain: s.chain.first, Link: s.chain.number, Links: s.chain.of,
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

// Filter selects jobs for [Queue.List] and [Queue.ListDead].
type Filter struct {
	// Queue and Name select by queue and by task; empty is all.
	Queue, Name string
	// State is what to list: Scheduled (also those that wait for another
	// attempt), Queued (also those that run), Done (all that have ended, Canceled
	// and Dead too) or Dead.
	State State
	// Limit is the most jobs; default 100.
	Limit int
	// After goes on behind the last call's Page.Next; empty begins.
	After uint64
}

// Page is a part of a list.
type Page struct {
	Jobs []Info
	// Next is for Filter.After; 0 says that this was the last page.
	Next uint64
}

const (
	defaultPage = 100
	mostPage    = 10_000
	// scanPage is how many messages are read at a time; scanMost how many one
	// call looks at for those that the filter selects.
	scanPage = 256
	scanMost = 20_000
)

// List returns jobs in the order in which they came into the state that f names.
// A page may have fewer than f.Limit jobs, or none, and yet be followed by
// another: one call looks at 20 000 jobs at most.
func (q *Queue) List(ctx context.Context, f Filter) (Page, error) {
	stream, subject, err := f.place()
	if err != nil {
		return Page{}, err
	}
	limit := min(f.Limit, mostPage)
	if limit <= 0 {
		limit = defaultPage
	}
	page, from := Page{}, f.After+1
	for looked := 0; looked < scanMost; {
		messages, err := q.engine.Scan(ctx, stream, subject, from, scanPage)
		if err != nil {
			return page, storeError(err)
		}
		for _, m := range messages {
			from, looked = m.Seq+1, looked+1
			if info := q.listed(m); info != nil && f.selects(info) {
				page.Jobs = append(page.Jobs, *info)
			}
			if len(page.Jobs) == limit {
				page.Next = m.Seq
				return page, nil
			}
		}
		if len(messages) < scanPage {
			return page, nil
		}
	}
	page.Next = from - 1
	return page, nil
}

// place says where the jobs of a filter lie.
func (f Filter) place() (engine.Stream, string, error) {
	queue := f.Queue
	if queue == "" {
		queue = "*"
	} else if err := checkToken("Filter.Queue", queue); err != nil {
		return 0, "", err
	}
	switch f.State {
	case Scheduled, Retrying:
		return engine.Jobs, "at.*", nil
	case Queued, Running:
		return engine.Jobs, "job." + queue + ".*.*", nil
	case Dead:
		return engine.Dead, "dead." + queue + ".*", nil
	default:
		return engine.Outcomes, "out.*", nil
	}
}

func (f Filter) selects(i *Info) bool {
	return (f.Queue == "" || i.Queue == f.Queue) && (f.Name == "" || i.Name == f.Name)
}

// listed gives what a message of a list tells by itself. What is damaged is
// listed with what is known.
func (q *Queue) listed(m engine.Message) *Info {
	if m.Stream == engine.Jobs {
		info, err := queued(m)
		if err != nil {
			return &Info{ID: engine.LastToken(m.Subject), State: Queued, Reason: Corrupt, Err: err}
		}
		if !m.At.IsZero() {
			info.State, info.At = Scheduled, m.At
		} else if q.running(info.ID) {
			info.State, info.Node = Running, q.config.Node
		}
		return info
	}
	id := engine.LastToken(m.Subject)
	e, err := decodeEnding(id, m.Data)
	if err != nil {
		return &Info{ID: id, State: Dead, Outcome: bullpen.Lost, Reason: Corrupt, Err: err}
	}
	return e.info()
}

func (q *Queue) running(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.hands[id]
	return a != nil && a.state.State() != attemptTaken
}
