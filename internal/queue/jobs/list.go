package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// The bounds of lists.
const (
	DefaultPage = 100
	MostPage    = 10_000
	// ListTime is how long one walk looks for jobs that the filter selects.
	ListTime = 60 * time.Millisecond
	// LookLeast and LookBytes are how many jobs, and how many bytes of them, are read in
	// any case, so that a short list is one page on a busy machine too.
	LookLeast = 64
	LookBytes = 4 << 20
	// listAround is the largest expected difference between the time of an outcome and
	// the time at which it was stored: the clocks of nodes differ, and a store that was
	// unreachable gets it late.
	listAround = 10 * time.Minute
)

// look calls found for each selected job until found returns false, d has passed or no
// job is left. It returns the sequence number to continue after, 0 at the end.
func (q *Jobs) look(ctx context.Context, s *selection, d time.Duration, found func(i *job.Info, seq uint64) bool) (next uint64, err error) {
	w := engine.Walk{Back: s.Newest, Largest: max(q.Config.MaxPayload, q.Config.MaxResult) + RecordRoom}
	if w.From = s.after; s.after > 0 && !s.Newest {
		w.From++
	} else if s.after > 0 {
		if w.From--; w.From == 0 {
			return 0, nil
		}
	}
	if s.Newest && s.upTo > 0 && (w.From == 0 || w.From > s.upTo) {
		w.From = s.upTo
	}
	end, matched, looked, read := time.Now().Add(d), false, 0, 0
	at, err := q.Engine.Walk(ctx, s.stream, w, func(m engine.Message) bool {
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
			if s.selects(info) && !found(info, m.Seq) {
				return false
			}
		}
		looked, read = looked+1, read+len(m.Data)
		return looked < LookLeast && read < LookBytes || time.Now().Before(end)
	})
	switch {
	case err != nil:
		return 0, StoreError(err)
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

// mostFew is the largest number of jobs that lookAtFew reads at once.
const mostFew = 256

// lookAtFew continues a walk that has found in its time only jobs on other subjects. If
// the filter's subject has few jobs, the store finds them by their subject; if it has
// many, the next call continues the walk.
func (q *Jobs) lookAtFew(ctx context.Context, s *selection, at uint64, found func(i *job.Info, seq uint64) bool) (next uint64, err error) {
	goOn := at - 1
	if s.Newest {
		goOn = at + 1
	}
	n, err := q.Matching(ctx, s.stream, s.subject)
	if err != nil || n > mostFew {
		return goOn, err
	}
	few, err := q.Engine.Scan(ctx, s.stream, s.subject, 1, mostFew)
	if err != nil || len(few) == mostFew {
		return goOn, StoreError(err)
	}
	if s.Newest {
		slices.Reverse(few)
	}
	for _, m := range few {
		if s.Newest && m.Seq > at || !s.Newest && (m.Seq < at || s.upTo > 0 && m.Seq > s.upTo) {
			continue
		}
		info := q.listed(m)
		if s.selects(info) && !found(info, m.Seq) {
			return m.Seq, nil
		}
	}
	return 0, nil
}

// noMore marks that no later job can be selected.
const noMore = ^uint64(0)

// listed returns what a message of a list says by itself. A damaged one is listed with
// what is known.
func (q *Jobs) listed(m engine.Message) *job.Info {
	if m.Stream == engine.Jobs {
		info, err := record.Queued(m)
		if err != nil {
			return &job.Info{ID: engine.LastToken(m.Subject), State: job.Queued, Reason: job.Corrupt, Err: err}
		}
		if !m.At.IsZero() {
			info.State, info.At = job.Scheduled, m.At
		} else if q.running(info.ID) {
			info.State, info.Node = job.Running, q.Config.Node
		}
		return info
	}
	id := engine.LastToken(m.Subject)
	e, err := record.DecodeEnd(id, m.Data)
	switch {
	case errors.Is(err, job.ErrNewer):
		return &job.Info{ID: id, State: job.Dead, Outcome: bullpen.Lost, Reason: job.Newer, Err: err}
	case err != nil:
		return &job.Info{ID: id, State: job.Dead, Outcome: bullpen.Lost, Reason: job.Corrupt, Err: err}
	}
	return e.Info()
}

func (q *Jobs) running(id string) bool {
	h := q.Above.Hand(id)
	return h != nil && h.Running()
}
