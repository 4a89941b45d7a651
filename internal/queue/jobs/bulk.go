package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// bulkWindow is how many jobs EnqueueAll puts at the same time.
const bulkWindow = 1024

// EnqueueAll implements queue.Queue.EnqueueAll.
func (q *Jobs) EnqueueAll(ctx context.Context, jobs []job.Job) ([]job.Ref, error) {
	all := make([]*record.Job, len(jobs))
	var errs []error
	for i := range jobs {
		s, err := q.Accept(&jobs[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
		all[i] = s
	}
	if err := errors.Join(errs...); err != nil {
		return make([]job.Ref, len(jobs)), err
	}
	return q.EnqueueMany(ctx, all)
}

// EnqueueMany puts jobs that were checked. Members of a batch that may have been put
// before are put only if the store does not hold them.
func (q *Jobs) EnqueueMany(ctx context.Context, all []*record.Job) ([]job.Ref, error) {
	b := &bulk{
		queue: q, jobs: all, ends: make([]bulkEnd, len(all)), left: len(all),
		room: make(chan struct{}, bulkWindow), done: make(chan struct{}),
	}
	return b.run(ctx)
}

// bulk is one call of EnqueueAll.
type bulk struct {
	queue *Jobs
	jobs  []*record.Job
	room  chan struct{} // one for each job that is being put
	done  chan struct{} // closed when all jobs have an end

	mu   sync.Mutex
	ends []bulkEnd // guarded by mu
	left int       // jobs without an end; guarded by mu
}

// bulkEnd is the result for one job.
type bulkEnd struct {
	put, known bool
	ref        job.Ref
	err        error
}

func (b *bulk) run(ctx context.Context) ([]job.Ref, error) {
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
	if s.Job.Key != "" {
		go func() { // ends with its call, which ends with ctx
			ref, err := q.enqueueKeyed(ctx, s)
			b.end(i, ref, err)
		}()
		return
	}
	m := s.Message()
	// A member that was certainly not put before needs no look-up.
	m.New = s.Batch != "" && s.Derived
	q.Engine.Put(m, func(_ uint64, err error) {
		if m.New && errors.Is(err, engine.ErrConflict) {
			q.Engine.Settle(func(err error) { b.existed(i, err) })
			return
		}
		if err != nil {
			ref, err := q.notEnqueued(s, StoreError(err))
			b.end(i, ref, err)
			return
		}
		q.Counters.Of(s.Job.Queue).Enqueued.Add(1)
		b.end(i, job.Ref{ID: s.ID, Queue: s.Job.Queue, State: s.State()}, nil)
	})
}

// existed ends a member of a batch that was stored before.
func (b *bulk) existed(i int, err error) {
	if err != nil {
		ref, err := b.queue.notEnqueued(b.jobs[i], StoreError(err))
		b.end(i, ref, err)
		return
	}
	b.end(i, job.Ref{ID: b.jobs[i].ID, Queue: b.jobs[i].Job.Queue, Existing: true, State: b.jobs[i].State()}, nil)
}

func (b *bulk) end(i int, ref job.Ref, err error) {
	<-b.room
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[i] = bulkEnd{put: true, known: true, ref: ref, err: err}
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// result returns what is known so far.
func (b *bulk) result(ctx context.Context) ([]job.Ref, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refs := make([]job.Ref, len(b.ends))
	var errs []error
	for i := range b.ends {
		e := &b.ends[i]
		err := e.err
		refs[i] = e.ref
		switch {
		case e.known:
		case e.put:
			refs[i], err = job.Ref{ID: b.jobs[i].ID, Queue: b.jobs[i].Job.Queue}, fmt.Errorf("job %s is %w: %w", b.jobs[i].ID, job.ErrUnconfirmed, context.Cause(ctx))
		default:
			err = fmt.Errorf("job %q was not enqueued: %w", b.jobs[i].Job.Name, context.Cause(ctx))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
	}
	return refs, errors.Join(errs...)
}
