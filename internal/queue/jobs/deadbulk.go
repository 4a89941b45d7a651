package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

const (
	// bulkTime bounds a call that handles many jobs. After bulkFailures failures the call
	// ends.
	bulkTime     = 10 * time.Second
	bulkFailures = 100
	// bulkPage is how many jobs are selected at a time, bulkAbreast how many of them are
	// handled concurrently.
	bulkPage    = 256
	bulkAbreast = 16
)

// RetryDeadAll implements queue.Queue.RetryDeadAll.
func (q *Jobs) RetryDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.eachDead(ctx, f, limit, func(ctx context.Context, id string) error {
		_, err := q.RetryDead(ctx, id)
		return err
	})
}

// RemoveDeadAll implements queue.Queue.RemoveDeadAll.
func (q *Jobs) RemoveDeadAll(ctx context.Context, f job.Filter, limit int) (job.Bulk, error) {
	return q.eachDead(ctx, f, limit, q.RemoveDead)
}

// eachDead calls do for the dead jobs that f selects.
func (q *Jobs) eachDead(ctx context.Context, f job.Filter, limit int, do func(context.Context, string) error) (job.Bulk, error) {
	s, err := newSelection(f, partDead)
	if err != nil {
		return job.Bulk{}, err
	}
	from, err := parseCursor(f.After)
	if err != nil {
		return job.Bulk{}, err
	}
	if from.part == partDead {
		s.after = from.after
	}
	if limit <= 0 || limit > MostPage {
		limit = MostPage
	}
	last, err := q.lastOf(ctx, s.stream)
	if err != nil || last == 0 {
		return job.Bulk{}, err
	}
	var done job.Bulk
	for end := time.Now().Add(bulkTime); ; {
		var ids []string
		s.upTo = last
		next, err := q.look(ctx, s, ListTime, func(i *job.Info, _ uint64) bool {
			ids = append(ids, i.ID)
			return len(ids) < min(bulkPage, limit-done.Count)
		})
		if err == nil {
			err = doEach(ctx, &done, ids, do)
		}
		if err != nil {
			return goOn(done, s.after), err // at the same place: the jobs handled so far are gone
		}
		if s.after = next; next == 0 || done.Count >= limit || len(done.Failed) >= bulkFailures || time.Now().After(end) {
			return goOn(done, next), nil
		}
	}
}

// goOn returns b with where to go on; 0 is the end.
func goOn(b job.Bulk, next uint64) job.Bulk {
	if b.More = next != 0; b.More {
		b.Next = cursor{partDead, next}.String()
	}
	return b
}

// lastOf returns the sequence number of the last message of a stream, 0 for none.
func (q *Jobs) lastOf(ctx context.Context, s engine.Stream) (seq uint64, err error) {
	_, err = q.Engine.Walk(ctx, s, engine.Walk{Back: true}, func(m engine.Message) bool {
		seq = m.Seq
		return false
	})
	return seq, StoreError(err)
}

// doEach calls do for several jobs concurrently. It returns only errors of the store.
func doEach(ctx context.Context, b *job.Bulk, ids []string, do func(context.Context, string) error) error {
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
	b.Count -= len(next) // jobs not started because the store failed
	var failed error
	for i, err := range errs {
		switch {
		case ofStore(ctx, err):
			failed = err
		case errors.Is(err, job.ErrNotFound): // another call was faster
		case err != nil:
			b.Failed = append(b.Failed, job.Failure{ID: ids[i], Err: err})
		default:
			b.Count++
		}
	}
	return failed
}

// ofStore reports whether an error concerns the store and not only one job.
func ofStore(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, job.ErrStore) || errors.Is(err, job.ErrClosed) ||
		errors.Is(err, job.ErrFull) || errors.Is(err, job.ErrUnconfirmed))
}
