package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Bulk is what became of something that was done to many dead jobs.
type Bulk struct {
	// Count is how many it was done to.
	Count int
	// Failed has those that it was not done to, with the reason; they stay among the
	// dead.
	Failed []Failure
	// Next is for Filter.After of another call: there may be more. 0 says that all
	// were looked at.
	Next uint64
}

// Failure is a job to which something could not be done.
type Failure struct {
	ID  string
	Err error
}

const (
	// bulkTime bounds a call that does something to many jobs, bulkFailures how many
	// failures it tells and still goes on.
	bulkTime     = 10 * time.Second
	bulkFailures = 100
	// bulkPage is how many jobs are chosen at a time, bulkAbreast for how many of
	// them it is done at the same time.
	bulkPage    = 256
	bulkAbreast = 16
)

// RetryDeadAll enqueues again the dead jobs that f selects, each as RetryDead does:
// limit of them at most (0 is 10 000), for about ten seconds, until a hundred could
// not be. Jobs that die after the call began are not touched; a call that goes on
// behind Bulk.Next may set f.Before to when the first began. Called by several at
// the same time, or again after a crash, each job is enqueued again once.
//
// The error is of the filter or the store; what Bulk tells was done nevertheless.
func (q *Queue) RetryDeadAll(ctx context.Context, f Filter, limit int) (Bulk, error) {
	return q.eachDead(ctx, f, limit, func(ctx context.Context, id string) error {
		_, err := q.RetryDead(ctx, id)
		return err
	})
}

// RemoveDeadAll forgets the dead jobs that f selects, within the bounds of
// RetryDeadAll.
func (q *Queue) RemoveDeadAll(ctx context.Context, f Filter, limit int) (Bulk, error) {
	return q.eachDead(ctx, f, limit, q.RemoveDead)
}

// eachDead does something to the dead jobs that f selects.
func (q *Queue) eachDead(ctx context.Context, f Filter, limit int, do func(context.Context, string) error) (Bulk, error) {
	f.State = Dead
	s, err := f.selection()
	if err != nil {
		return Bulk{}, err
	}
	if limit <= 0 || limit > mostPage {
		limit = mostPage
	}
	last, err := q.lastOf(ctx, s.stream)
	if err != nil || last == 0 {
		return Bulk{}, err
	}
	var done Bulk
	for end := time.Now().Add(bulkTime); ; {
		var ids []string
		s.upTo = last
		next, err := q.look(ctx, s, listTime, func(i *Info) bool {
			ids = append(ids, i.ID)
			return len(ids) < min(bulkPage, limit-done.Count)
		})
		if err == nil {
			err = done.do(ctx, ids, do)
		}
		if err != nil {
			done.Next = s.After // the same again: what was done is not there any more
			return done, err
		}
		s.After, done.Next = next, next
		if next == 0 || done.Count >= limit || len(done.Failed) >= bulkFailures || time.Now().After(end) {
			return done, nil
		}
	}
}

// lastOf returns the sequence number of the last message of a stream, 0 for none.
func (q *Queue) lastOf(ctx context.Context, s engine.Stream) (seq uint64, err error) {
	_, err = q.engine.Walk(ctx, s, engine.Walk{Back: true}, func(m engine.Message) bool {
		seq = m.Seq
		return false
	})
	return seq, storeError(err)
}

// do does something to jobs, to several at the same time. The error is of the store.
func (b *Bulk) do(ctx context.Context, ids []string, do func(context.Context, string) error) error {
	errs := make([]error, len(ids))
	next := make(chan int, len(ids))
	for i := range ids {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(bulkAbreast, len(ids)) {
		all.Go(func() { // ends with its calls, which end with ctx; do waits
			for i := range next {
				if errs[i] = do(ctx, ids[i]); ofStore(ctx, errs[i]) {
					return
				}
			}
		})
	}
	all.Wait()
	b.Count -= len(next) // those that nobody took, as the store failed before
	var failed error
	for i, err := range errs {
		switch {
		case ofStore(ctx, err):
			failed = err
		case errors.Is(err, ErrNotFound): // another was faster
		case err != nil:
			b.Failed = append(b.Failed, Failure{ids[i], err})
		default:
			b.Count++
		}
	}
	return failed
}

// ofStore tells whether an error is none of one job alone.
func ofStore(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ErrStore) || errors.Is(err, ErrClosed) ||
		errors.Is(err, ErrFull) || errors.Is(err, ErrUnconfirmed))
}
