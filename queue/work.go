package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// WorkConfig says which jobs a call of Work takes. The zero value takes those of
// the queue "default", as many as the executor can start.
type WorkConfig struct {
	// Queue is the name of the queue. Default "default".
	Queue string
	// Concurrency is the most jobs that this call has in the executor at a time.
	// Default: what the executor's Capacity says.
	Concurrency int
	// Strict makes jobs of a higher priority go first always, so that low ones
	// may wait for ever. Default: 8 high, 4 normal, 1 low.
	Strict bool
	// Group is what holds for each group of the queue that has no limits of its own
	// (see Queue.SetGroupLimits). Of several calls on one queue in a program the last
	// one counts; those of all nodes should say the same.
	Group GroupLimits
	// Grace is how long jobs that run may go on after the end of ctx. Default 30 s;
	// -1 ends them at once.
	Grace time.Duration
	// Bury is as Job.Bury, for jobs whose record is damaged so that what they say is
	// not known. Its job has no payload. Empty tells nobody.
	Bury string
}

const defaultGrace = 30 * time.Second

func (c WorkConfig) check() error {
	var errs []error
	if c.Queue != "" {
		errs = append(errs, checkToken("Queue", c.Queue))
	}
	if len(c.Bury) > longestName {
		errs = append(errs, fmt.Errorf("Bury has %d bytes: use %d at most", len(c.Bury), longestName))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a positive number, or 0 for what the executor can start", c.Concurrency))
	}
	if err := c.Group.Check(); err != nil {
		errs = append(errs, fmt.Errorf("Group: %w", err))
	}
	return errors.Join(errs...)
}

// errAborted is the cause of the contexts of jobs that this program ends in
// order to end itself.
var errAborted = errors.New("the node ends")

// Work runs jobs of a queue on an executor until ctx ends, and returns when it
// has nothing in hand any more. Many calls may work on one queue, on one node or
// on many; one job is in one hand at a time.
//
// It takes what the executor can start and no more: at most one job of each other
// priority waits in a hand beyond that. When others use the executor too, one that
// tells of room (bullpen.RoomNotifier) is waited for, and any other one is asked from
// time to time. While a job runs, its lease is renewed as long
// as the executor has it, never by the worker itself.
//
// When ctx ends, no more jobs are taken; those that run may finish within
// c.Grace, then their contexts are canceled and they are given back, to run again
// elsewhere. What has not started goes back at once when the executor is stopped
// at the same time. The error is nil after the end of ctx, ErrClosed after Close,
// and says why else no jobs can be taken.
func (q *Queue) Work(ctx context.Context, executor bullpen.Executor, c WorkConfig) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("queue: the config of Work is not valid: %w", err)
	}
	if executor == nil {
		return errors.New("queue: Work needs an executor")
	}
	c.Queue = cmp.Or(c.Queue, "default")
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	r := &runner{queue: q, executor: executor, config: c, tally: q.tallies.of(c.Queue), wake: make(chan struct{}, 1), left: make(chan struct{}), ended: ctx.Err}
	r.jobs, r.abortJobs = context.WithCancelCause(context.WithoutCancel(ctx))
	if !q.enter(r) {
		return ErrClosed
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

// takePatiently begins to take as soon as the store lets it: one that is away for
// a moment does not end the work. It does not take when it cannot, or ctx ends.
func (r *runner) takePatiently(ctx context.Context) (takes bool, err error) {
	q := r.queue
	for {
		err := r.take()
		switch {
		case err == nil:
			return true, nil
		case q.live.Err() != nil:
			return false, ErrClosed
		case q.hopeless(err):
			return false, storeError(err)
		}
		q.journal.emit(Event{Kind: HeldOff, Queue: r.config.Queue, Text: fmt.Sprintf("for %v: %v", askSoon, err)})
		select {
		case <-time.After(askSoon):
		case <-q.live.Done():
			return false, ErrClosed
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (q *Queue) enter(r *runner) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.runners[r] = struct{}{}
	return true
}

func (q *Queue) leave(r *runner) {
	q.mu.Lock()
	delete(q.runners, r)
	q.mu.Unlock()
	close(r.left)
}

// freed says that a job holds no worker any more.
func (r *runner) freed(handed bool) {
	if !handed {
		return
	}
	if r.held.Add(-1) <= r.low.Load() {
		r.signal()
		return
	}
	// Few free places are saved up, so that a wake-up serves several; but not for
	// longer than this, or they stay free while what runs elsewhere takes long.
	if r.saving.CompareAndSwap(false, true) {
		time.AfterFunc(placesSaved, func() {
			r.saving.Store(false)
			r.signal()
		})
	}
}

// placesSaved is for how long places stay free that are fewer than a wake-up is worth.
const placesSaved = time.Millisecond

// finished says that a job is out of hand.
func (r *runner) finished() {
	if r.all.Add(-1) == 0 {
		r.signal()
	}
}

// finish gives back what came last, and waits for what is in hand: first for
// c.Grace, then with all contexts canceled, then no more. What is left is given
// again after its lease.
func (r *runner) finish() {
	r.returnLast()
	graced := r.config.Grace > 0
	if graced && r.wait(r.config.Grace) {
		r.abortJobs(errAborted)
		return
	}
	r.abortJobs(errAborted)
	if !graced || r.queue.live.Err() == nil {
		r.wait(abortPatience)
	}
}

// returnLast gives back what has not been handed over.
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

// abortPatience is how long Work waits for an executor to end what was canceled.
const abortPatience = 10 * time.Second

// closingPatience is how long Close waits for what it has interrupted to come back:
// a job that does is with another node at once, one that does not after its lease.
const closingPatience = 100 * time.Millisecond

// wait waits until nothing is in hand, for d at most, and for closingPatience once
// the queue closes.
func (r *runner) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	closed := r.queue.live.Done()
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
