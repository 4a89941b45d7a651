package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// Config is a queue's WorkConfig.
type Config struct {
	Queue       string
	Concurrency int
	Strict      bool
	Group       job.GroupLimits
	Grace       time.Duration
	Bury        string
}

const defaultGrace = 30 * time.Second

// errAborted is the cause of the contexts of jobs that this program cancels to end
// itself.
var errAborted = errors.New("the node is stopping")

// Work implements queue.Queue.Work; c was checked.
func (q *Node) Work(ctx context.Context, executor bullpen.Executor, c Config) error {
	if executor == nil {
		return errors.New("queue: Work needs an executor")
	}
	c.Queue = cmp.Or(c.Queue, "default")
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	r := &runner{queue: q, executor: executor, config: c, counters: q.Counters.Of(c.Queue), wake: make(chan struct{}, 1), left: make(chan struct{}), ended: ctx.Err}
	r.jobs, r.abortJobs = context.WithCancelCause(context.WithoutCancel(ctx))
	if !q.enter(r) {
		return job.ErrClosed
	}
	defer q.leave(r)
	if takes, err := r.takePatiently(ctx); !takes {
		return err
	}
	err := r.run(ctx)
	r.stopTaking()
	r.finish()
	return err
}

// takePatiently starts to take jobs, and retries while the store is unreachable, so that
// a short outage does not end the work. It returns false if taking fails or ctx ends.
func (r *runner) takePatiently(ctx context.Context) (takes bool, err error) {
	q := r.queue
	for {
		err := r.take()
		switch {
		case err == nil:
			return true, nil
		case q.Live.Err() != nil:
			return false, job.ErrClosed
		case q.Hopeless(err):
			return false, jobs.StoreError(err)
		}
		q.Journal.Emit(job.Event{Kind: job.HeldOff, Queue: r.config.Queue, Text: fmt.Sprintf("for %v: %v", jobs.AskSoon, err)})
		select {
		case <-time.After(jobs.AskSoon):
		case <-q.Live.Done():
			return false, job.ErrClosed
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (q *Node) enter(r *runner) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return false
	}
	q.runners[r] = struct{}{}
	return true
}

func (q *Node) leave(r *runner) {
	q.mu.Lock()
	delete(q.runners, r)
	q.mu.Unlock()
	close(r.left)
}

// freed reports that a job no longer holds a worker.
func (r *runner) freed(handed bool) {
	if !handed {
		return
	}
	if r.held.Add(-1) <= r.low.Load() {
		r.Signal()
		return
	}
	// A few free places are collected, so that one wake-up serves several. The timer
	// bounds that, or they would stay free while the other jobs take long.
	if r.saving.CompareAndSwap(false, true) {
		time.AfterFunc(placesSaved, func() {
			r.saving.Store(false)
			r.Signal()
		})
	}
}

// placesSaved is how long fewer places than are worth a wake-up stay free.
const placesSaved = time.Millisecond

// finished reports that the node no longer holds a job.
func (r *runner) finished() {
	if r.all.Add(-1) == 0 {
		r.Signal()
	}
}

// finish gives back the jobs that came last, and waits for the others: first for c.Grace,
// then with all contexts canceled, up to AbortPatience. The rest is delivered again after
// the lease.
func (r *runner) finish() {
	r.returnLast()
	graced := r.config.Grace > 0
	if graced && r.wait(r.config.Grace) {
		r.abortJobs(errAborted)
		return
	}
	r.abortJobs(errAborted)
	if !graced || r.queue.Live.Err() == nil {
		r.wait(AbortPatience)
	}
}

// returnLast gives back the jobs that were not handed over.
func (r *runner) returnLast() {
	r.mu.Lock()
	rest := r.inbox
	r.inbox = nil
	r.mu.Unlock()
	for i := range rest {
		r.takeIn(&rest[i])
	}
	r.returnReady()
}

// AbortPatience is how long Work waits for an executor to end what was canceled.
const AbortPatience = 10 * time.Second

// closingPatience is how long Close waits for interrupted jobs to come back. A job that
// does is free for another node at once, others after their lease.
const closingPatience = 100 * time.Millisecond

// wait waits until no job is left, for at most d, and for closingPatience once the queue
// closes.
func (r *runner) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	closed := r.queue.Live.Done()
	for r.all.Load() > 0 {
		select {
		case <-r.wake:
			r.returnLast()
		case <-timer.C:
			return false
		case <-closed:
			closed = nil
			timer.Reset(min(d, closingPatience))
		}
	}
	return true
}

// abort makes Work return soon.
func (r *runner) abort() { r.abortJobs(errAborted) }
