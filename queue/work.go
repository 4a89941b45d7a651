package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
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
	// Grace is how long jobs that run may go on after the end of ctx. Default 30 s;
	// -1 ends them at once.
	Grace time.Duration
}

const defaultGrace = 30 * time.Second

func (c WorkConfig) check() error {
	var errs []error
	if c.Queue != "" {
		errs = append(errs, checkToken("Queue", c.Queue))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a positive number, or 0 for what the executor can start", c.Concurrency))
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
// priority waits in a hand beyond that. While a job runs, its lease is renewed as long
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
	r := &runner{queue: q, executor: executor, config: c, wake: make(chan struct{}, 1), left: make(chan struct{})}
	r.jobs, r.abortJobs = context.WithCancelCause(context.WithoutCancel(ctx))
	if !q.enter(r) {
		return ErrClosed
	}
	defer q.leave(r)
	if err := r.take(); err != nil {
		return fmt.Errorf("queue: %w", storeError(err))
	}
	err := r.run(ctx)
	r.stopTaking()
	r.finish()
	return err
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

// runner is one call of Work. Its goroutine is the caller's; it alone hands jobs
// over and asks for more.
type runner struct {
	queue     *Queue
	executor  bullpen.Executor
	config    WorkConfig
	jobs      context.Context // of all jobs; its end interrupts them
	abortJobs context.CancelCauseFunc
	left      chan struct{} // closed when Work returns
	levels    [priorities]level
	turn      smooth
	pausedTo  time.Time // owned by the goroutine of Work
	pause     time.Duration
	ready     []*attempt // looked up, and waiting for a place; owned by the goroutine of Work
	looking   int        // jobs that are looked up; owned by the goroutine of Work

	wake chan struct{} // capacity 1: something has happened
	held atomic.Int64  // jobs in the hands of the executor
	all  atomic.Int64  // jobs in hand, those too whose outcome is on its way
	low  atomic.Int64  // wake when held falls to this

	works atomic.Bool // the executor has run a job since it last did not start one

	mu       sync.Mutex
	inbox    []arrival // from the takers; guarded by mu
	holdOff  error     // why the executor did not start a job; guarded by mu
	renewing bool      // a timer of renewal is set; guarded by mu
}

// level is one priority of a runner's queue. The goroutine of Work owns it.
type level struct {
	taker    engine.Taker
	waiting  int  // how many more there were at the last delivery
	asked    int  // requested and not come, of those that do not wait
	standing int  // requested and not come, of those that wait
	recalled bool // those are on their way back
	active   bool // it was the last to deliver
}

// arrival is what a taker has to say.
type arrival struct {
	level    Priority
	delivery engine.Delivery
	returned int      // that many requested ones do not come; then there is no delivery
	looked   *attempt // one whose look-up is over; then there is no delivery
	begun    *attempt // one whose record says that an attempt begins; then there is no delivery
}

func (r *runner) consumer(p Priority) engine.Consumer {
	return engine.Consumer{Queue: r.config.Queue, Priority: p.String()}
}

// take begins to take from the consumers of all priorities.
func (r *runner) take() error {
	for p := range Priority(priorities) {
		taker, err := r.queue.engine.Take(r.consumer(p),
			func(d engine.Delivery) { r.arrived(arrival{level: p, delivery: d}) },
			func(n int) { r.arrived(arrival{level: p, returned: n}) })
		if err != nil {
			r.stopTaking()
			return err
		}
		r.levels[p].taker = taker
		// What waits is known from the start, so that the first jobs are shared out
		// as all others.
		d, err := r.queue.engine.Depth(r.queue.live, r.consumer(p))
		if err != nil {
			r.stopTaking()
			return err
		}
		r.levels[p].waiting = d.Waiting
	}
	r.levels[Normal].active = true
	return nil
}

func (r *runner) stopTaking() {
	for i := range r.levels {
		if t := r.levels[i].taker; t != nil {
			t.Stop()
		}
	}
}

// arrived notes what a taker says, for the goroutine of Work.
func (r *runner) arrived(a arrival) {
	r.mu.Lock()
	r.inbox = append(r.inbox, a)
	r.mu.Unlock()
	r.signal()
}

func (r *runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run takes in what arrives and asks for more, until ctx ends.
func (r *runner) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []arrival
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.jobs.Done():
			return ErrClosed
		case <-r.queue.engine.Failed():
			return r.queue.Err()
		case <-timer.C:
		case <-r.wake:
		}
		r.mu.Lock()
		batch, r.inbox = r.inbox, batch[:0]
		reason := r.holdOff
		r.holdOff = nil
		r.mu.Unlock()
		for i := range batch {
			r.takeIn(&batch[i])
		}
		clear(batch)
		if reason != nil {
			if err := r.hold(reason); err != nil {
				return err
			}
		}
		if wait := time.Until(r.pausedTo); wait > 0 {
			r.standBack()
			timer.Reset(wait)
			continue
		}
		if again := r.ask(); again > 0 {
			timer.Reset(again)
		}
	}
}

// takeIn accounts for an arrival and starts its job.
func (r *runner) takeIn(a *arrival) {
	switch {
	case a.looked != nil:
		r.looking--
		a.looked.startLookedUp()
		return
	case a.begun != nil:
		r.looking--
		r.ready = append(r.ready, a.begun)
		return
	}
	l := &r.levels[a.level]
	if a.returned > 0 {
		l.waiting = 0
		// Those that did not wait come back first: they are answered at once.
		n := min(a.returned, l.asked)
		l.asked -= n
		l.standing = max(l.standing-(a.returned-n), 0)
		l.recalled = l.recalled && l.standing > 0
		return
	}
	if l.asked > 0 {
		l.asked--
	} else if l.standing > 0 {
		l.standing--
	}
	l.recalled = l.recalled && l.standing > 0
	l.waiting = int(min(a.delivery.Waiting, 1<<30))
	for i := range r.levels {
		r.levels[i].active = Priority(i) == a.level
	}
	r.begin(a.delivery)
}

// begin makes an attempt of a delivery and hands it over, after what is known of
// the job was looked up, where there may be something.
func (r *runner) begin(d engine.Delivery) {
	q := r.queue
	q.count.taken.Add(1)
	q.count.hands.Add(1)
	r.all.Add(1)
	a := q.newAttempt(r, d)
	s, err := decodeJob(a.id(), d.Data)
	if err == nil {
		a.is(s)
	} else {
		a.is(&stored{id: a.id()})
	}
	if !q.take(a) {
		d.Extend() // this node has it already: its lease ended because the node was held up
		a.answered()
		return
	}
	r.renewLater()
	if err != nil {
		a.corrupt(err)
		return
	}
	if d.Deliveries > 1 || d.Old || d.Again || s.again || s.job.Key != "" {
		r.looking++
		a.background(a.lookUp, func() { r.arrived(arrival{looked: a}) })
		return
	}
	r.ready = append(r.ready, a)
}

// handOver gives the executor what is ready, as far as it has places.
func (r *runner) handOver() {
	if len(r.ready) == 0 {
		return
	}
	places := r.places()
	n := 0
	for ; n < len(r.ready) && n < places; n++ {
		r.ready[n].handOver()
	}
	left := copy(r.ready, r.ready[n:])
	clear(r.ready[left:])
	r.ready = r.ready[:left]
}

// places is how many jobs the executor can start now.
func (r *runner) places() int {
	places := r.executor.Capacity()
	if c := r.config.Concurrency; c > 0 {
		places = min(places, c-int(r.held.Load()))
	}
	return places
}

// returnReady gives back what waits for a place, so that another node may have it.
func (r *runner) returnReady() {
	for _, a := range r.ready {
		a.conclude(decision{step: stepGiveBack}, attemptEnd{})
	}
	clear(r.ready)
	r.ready = r.ready[:0]
}

// freed says that a job holds no worker any more.
func (r *runner) freed(handed bool) {
	if handed && r.held.Add(-1) <= r.low.Load() {
		r.signal()
	}
}

// finished says that a job is out of hand.
func (r *runner) finished() {
	if r.all.Add(-1) == 0 {
		r.signal()
	}
}

// finish gives back what came last, and waits for what is in hand: first for c.Grace, then with all contexts
// canceled, then no more. What is left is given again after its lease.
func (r *runner) finish() {
	r.returnLast()
	if r.config.Grace > 0 && !r.wait(r.config.Grace) {
		r.abortJobs(errAborted)
	}
	if r.config.Grace <= 0 {
		r.abortJobs(errAborted)
	}
	r.wait(abortPatience)
	r.abortJobs(errAborted)
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

// wait waits until nothing is in hand, for d at most or until the queue closes.
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
			return false
		}
	}
	return true
}

// abort makes Work return soon.
func (r *runner) abort() { r.abortJobs(errAborted) }

// renewLater sets the timer of renewal, where none is set.
func (r *runner) renewLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewing {
		return
	}
	r.renewing = true
	time.AfterFunc(r.renewPeriod(), r.renew)
}

// renewPeriod is how often the jobs in hand are looked at: often enough for
// three signs of life in a lease, and for what they say of themselves.
func (r *runner) renewPeriod() time.Duration {
	d := min(r.queue.config.Lease/6, time.Second)
	return d - time.Duration(rand.Float64()*float64(d)/4)
}

// renew gives a sign of life for each job in hand that has not had one for a third
// of the lease, and stores what long ones say of themselves. It runs on a timer
// while there are jobs in hand.
func (r *runner) renew() {
	q, now := r.queue, time.Now()
	select {
	case <-r.left:
		return // what Work has left behind gets no sign of life, and so comes again
	default:
	}
	q.mu.Lock()
	mine := make([]*attempt, 0, r.all.Load())
	for _, a := range q.hands {
		if a.runner == r {
			mine = append(mine, a)
		}
	}
	q.mu.Unlock()
	for _, a := range mine {
		a.renew(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(mine) == 0 || q.live.Err() != nil {
		r.renewing = false
		return
	}
	time.AfterFunc(r.renewPeriod(), r.renew)
}
