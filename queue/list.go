package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// Page is a part of a list.
type Page struct {
	Jobs []Info
	// Next is for Filter.After; 0 says that this was the last page.
	Next uint64
}

const (
	defaultPage = 100
	mostPage    = 10_000
	// listTime is how long a call of List looks for jobs that the filter selects.
	listTime = 60 * time.Millisecond
	// lookLeast and lookBytes are how many jobs, and how many bytes of them, are
	// looked at in any case, so that a short list is one page on a busy machine too.
	lookLeast = 64
	lookBytes = 4 << 20
	// listAround is how far the time at which the store has got an outcome may be
	// from the time of the outcome: the clocks of nodes differ, and a store that is
	// away gets it late.
	listAround = 10 * time.Minute
)

// List returns jobs in the order in which they came into the state that f names,
// or the other way round (f.Newest). Payloads and results are left out, their sizes
// are told.
//
// A page may have fewer than f.Limit jobs, or none, and yet be followed by another:
// a call looks at jobs for 60 ms, at about 10 000 of them.
func (q *Queue) List(ctx context.Context, f Filter) (Page, error) {
	s, err := f.selection()
	if err != nil {
		return Page{}, err
	}
	limit := min(f.Limit, mostPage)
	if limit <= 0 {
		limit = defaultPage
	}
	var page Page
	page.Next, err = q.look(ctx, s, listTime, func(i *Info) bool {
		i.Payload, i.Result, i.record = nil, nil, nil
		page.Jobs = append(page.Jobs, *i)
		return len(page.Jobs) < limit
	})
	return page, err
}

// look calls found for each job that is selected, until found returns false, d is
// over or there are no more, and returns what Filter.After needs to go on, 0 at the
// end.
func (q *Queue) look(ctx context.Context, s *selection, d time.Duration, found func(*Info) bool) (next uint64, err error) {
	w := engine.Walk{Back: s.Newest, Largest: max(q.config.MaxPayload, q.config.MaxResult) + recordRoom}
	if w.From = s.After; s.After > 0 && !s.Newest {
		w.From++
	} else if s.After > 0 {
		if w.From--; w.From == 0 {
			return 0, nil
		}
	}
	if s.Newest && s.upTo > 0 && (w.From == 0 || w.From > s.upTo) {
		w.From = s.upTo
	}
	end, matched, looked, read := time.Now().Add(d), false, 0, 0
	at, err := q.engine.Walk(ctx, s.stream, w, func(m engine.Message) bool {
		if !s.Newest && s.upTo > 0 && m.Seq > s.upTo {
			next = noMore
			return false
		}
		if s.Newest && !s.Since.IsZero() && m.Time.Before(s.Since.Add(-listAround)) {
			next = noMore
			return false
		}
		if engine.Matches(s.subject, m.Subject) {
			matched = true
			info := q.listed(m)
			if info.After = m.Seq; s.selects(info) && !found(info) {
				return false
			}
		}
		looked, read = looked+1, read+len(m.Data)
		return looked < lookLeast && read < lookBytes || time.Now().Before(end)
	})
	switch {
	case err != nil:
		return 0, storeError(err)
	case at == 0 || next == noMore:
		return 0, nil
	case !matched:
		return q.lookAtFew(ctx, s, at, found)
	case s.Newest:
		return at + 1, nil
	default:
		return at - 1, nil
	}
}

// mostFew is how many jobs are few.
const mostFew = 256

// lookAtFew goes on from a place of a walk that has found nothing in its time but
// what lies on other subjects. Where there are only a few jobs on its own, the store
// finds them by their subject; where there are many, the next call goes on.
func (q *Queue) lookAtFew(ctx context.Context, s *selection, at uint64, found func(*Info) bool) (next uint64, err error) {
	goOn := at - 1
	if s.Newest {
		goOn = at + 1
	}
	n, err := q.matching(ctx, s.stream, s.subject)
	if err != nil || n > mostFew {
		return goOn, err
	}
	few, err := q.engine.Scan(ctx, s.stream, s.subject, 1, mostFew)
	if err != nil || len(few) == mostFew {
		return goOn, storeError(err)
	}
	if s.Newest {
		slices.Reverse(few)
	}
	for _, m := range few {
		if s.Newest && m.Seq > at || !s.Newest && (m.Seq < at || s.upTo > 0 && m.Seq > s.upTo) {
			continue
		}
		info := q.listed(m)
		if info.After = m.Seq; s.selects(info) && !found(info) {
			return m.Seq, nil
		}
	}
	return 0, nil
}

// noMore marks that nothing behind is selected.
const noMore = ^uint64(0)

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
	switch {
	case errors.Is(err, ErrNewer):
		return &Info{ID: id, State: Dead, Outcome: bullpen.Lost, Reason: Newer, Err: err}
	case err != nil:
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
