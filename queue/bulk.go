package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// bulkWindow is how many jobs EnqueueAll has under way.
const bulkWindow = 1024

// EnqueueAll puts many jobs into their queues, with as few syncs of the disk as
// it can. It is not all or nothing: the refs are in the order of the jobs, and
// those that were not enqueued have no ID. All jobs are checked before the first
// is put; then the errors are of all that failed. When ctx ends, jobs that were
// put and not confirmed are ErrUnconfirmed and have an ID; the rest is not put.
func (q *Queue) EnqueueAll(ctx context.Context, jobs []Job) ([]Ref, error) {
	all := make([]*stored, len(jobs))
	var errs []error
	for i := range jobs {
		s, err := q.accept(&jobs[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
		all[i] = s
	}
	if err := errors.Join(errs...); err != nil {
		return make([]Ref, len(jobs)), err
	}
	return q.enqueueStored(ctx, all)
}

// enqueueStored puts jobs that were checked. Members of a batch that may have been
// put before are put where they are not there.
func (q *Queue) enqueueStored(ctx context.Context, all []*stored) ([]Ref, error) {
	b := &bulk{
		queue: q, jobs: all, ends: make([]bulkEnd, len(all)), left: len(all),
		room: make(chan struct{}, bulkWindow), done: make(chan struct{}),
	}
	return b.run(ctx)
}

// bulk is one call of EnqueueAll.
type bulk struct {
	queue *Queue
	jobs  []*stored
	room  chan struct{} // one for each job under way
	done  chan struct{} // closed when all have an end

	mu   sync.Mutex
	ends []bulkEnd // guarded by mu
	left int       // of ends; guarded by mu
}

// bulkEnd is what became of one job.
type bulkEnd struct {
	put, known bool
	ref        Ref
	err        error
}

func (b *bulk) run(ctx context.Context) ([]Ref, error) {
	if len(b.jobs) == 0 {
		return nil, nil
	}
	for i := range b.jobs {
		select {
		case b.room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		b.put(ctx, i)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	return b.result(ctx)
}

func (b *bulk) put(ctx context.Context, i int) {
	q, s := b.queue, b.jobs[i]
	b.mu.Lock()
	b.ends[i].put = true
	b.mu.Unlock()
	if s.job.Key != "" {
		go func() { // ends with its call, which ends with ctx
			ref, err := q.enqueueKeyed(ctx, s)
			b.end(i, ref, err)
		}()
		return
	}
	m := s.message()
	// Of a member that nobody may have put, nobody need look.
	m.New = s.batch != "" && s.derived
	q.engine.Put(m, func(_ uint64, err error) {
		if m.New && errors.Is(err, engine.ErrConflict) {
			q.engine.Settle(func(err error) { b.existed(i, err) })
			return
		}
		if err != nil {
			ref, err := q.notEnqueued(s, storeError(err))
			b.end(i, ref, err)
			return
		}
		q.tallies.of(s.job.Queue).enqueued.Add(1)
		b.end(i, Ref{ID: s.id, State: s.first()}, nil)
	})
}

// existed ends a member of a batch that was there.
func (b *bulk) existed(i int, err error) {
	if err != nil {
		ref, err := b.queue.notEnqueued(b.jobs[i], storeError(err))
		b.end(i, ref, err)
		return
	}
	b.end(i, Ref{ID: b.jobs[i].id, Existing: true, State: b.jobs[i].first()}, nil)
}

func (b *bulk) end(i int, ref Ref, err error) {
	<-b.room
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[i] = bulkEnd{put: true, known: true, ref: ref, err: err}
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// result gives what is known by now.
func (b *bulk) result(ctx context.Context) ([]Ref, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refs := make([]Ref, len(b.ends))
	var errs []error
	for i := range b.ends {
		e := &b.ends[i]
		err := e.err
		refs[i] = e.ref
		switch {
		case e.known:
		case e.put:
			refs[i], err = Ref{ID: b.jobs[i].id}, fmt.Errorf("job %s is %w: %w", b.jobs[i].id, ErrUnconfirmed, context.Cause(ctx))
		default:
			err = fmt.Errorf("job %q was not enqueued: %w", b.jobs[i].job.Name, context.Cause(ctx))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
	}
	return refs, errors.Join(errs...)
}
