package run

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// runner is one call of Work. It runs in the caller's goroutine, which alone hands jobs
// over and requests more.
type runner struct {
	queue      *Node
	executor   bullpen.Executor
	config     Config
	counters   *jobs.Counters  // of its queue
	backlog    *group.Backlog  // of the jobs with a group; written before the first is taken
	grouped    time.Time       // when a job with a group could last begin; owned by the goroutine of Work
	jobs       context.Context //nolint:containedctx // of all jobs; its end interrupts them
	abortJobs  context.CancelCauseFunc
	left       chan struct{} // closed when Work returns
	ended      func() error  // returns an error once the context of the call has ended
	levels     [job.Priorities]level
	turn       smooth
	pausedTo   time.Time // owned by the goroutine of Work
	pause      time.Duration
	ready      []*attempt      // looked up, and waiting for a place; owned by the goroutine of Work
	looking    int             // jobs being looked up; owned by the goroutine of Work
	cramped    time.Time       // since when places are kept that other levels need or the executor lacks; owned by the goroutine of Work
	roomSignal <-chan struct{} // closed when the executor has room; nil if not requested; owned by the goroutine of Work
	quiet      bool            // nothing has happened since the last call of ask; owned by the goroutine of Work
	fullSince  time.Time       // since when the executor has no place and runs none of this call's jobs; owned by the goroutine of Work

	wake chan struct{} // capacity 1: something has happened
	held atomic.Int64  // jobs that the executor has
	all  atomic.Int64  // jobs of this call, including those whose outcome is being stored
	low  atomic.Int64  // wake when held falls to this

	saving atomic.Bool // a timer will wake the runner for the places free by then

	works atomic.Bool // the executor has run a job since it last refused one

	mu       sync.Mutex
	inbox    []arrival // from the takers; guarded by mu
	holdOff  error     // why the executor refused a job; guarded by mu
	renewing bool      // the renewal timer is set; guarded by mu
}

// level is one priority of a runner's queue. The goroutine of Work owns it.
type level struct {
	taker    engine.Taker
	waiting  int  // further jobs at the last delivery
	asked    int  // requests without wait that are not served
	standing int  // standing requests (with wait) that are not served
	recalled int  // of these, those recalled that may be on their way back
	active   bool // it delivered last
	others   int  // jobs with a group that began since the last job without one
}

// arrival is an event for the goroutine of Work, from a taker or a look-up.
type arrival struct {
	level    job.Priority
	delivery engine.Delivery
	returned int        // requests that are not served; then delivery is empty
	looked   *attempt   // its look-up is over; then delivery is empty
	begun    *attempt   // its record says that an attempt begins; then delivery is empty
	read     *group.Job // its record was read again; then delivery is empty
}

func (r *runner) consumer(p job.Priority) engine.Consumer {
	return engine.Consumer{Queue: r.config.Queue, Priority: p.String()}
}

// take starts to take from the consumers of all priorities.
func (r *runner) take() error {
	for p := range job.Priority(job.Priorities) {
		taker, err := r.queue.Engine.Take(r.consumer(p),
			func(d engine.Delivery) { r.arrived(arrival{level: p, delivery: d}) },
			func(n int) { r.arrived(arrival{level: p, returned: n}) })
		if err != nil {
			r.stopTaking()
			return err
		}
		r.levels[p].taker = taker
		// The depth is known from the start, so that the first jobs are shared out like
		// all others.
		d, err := r.queue.Engine.Depth(r.queue.Live, r.consumer(p))
		if err != nil {
			r.stopTaking()
			return err
		}
		r.levels[p].waiting = d.Waiting
	}
	r.levels[job.Normal].active = true
	waiting, err := r.queue.Enter(r.config.Queue, r, r.config.Group)
	if err != nil {
		r.stopTaking()
		return err
	}
	r.backlog = waiting
	return nil
}

func (r *runner) stopTaking() {
	if r.backlog != nil {
		r.backlog.Leave(r)
	}
	for i := range r.levels {
		if t := r.levels[i].taker; t != nil {
			t.Stop()
			r.levels[i].taker = nil
		}
	}
}

// arrived queues an event for the goroutine of Work.
func (r *runner) arrived(a arrival) {
	r.mu.Lock()
	r.inbox = append(r.inbox, a)
	r.mu.Unlock()
	r.Signal()
}

func (r *runner) Signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run handles events and requests jobs until ctx ends.
func (r *runner) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []arrival
	for {
		r.quiet = false
		select {
		case <-ctx.Done():
			return nil
		case <-r.jobs.Done():
			return job.ErrClosed
		case <-r.queue.Engine.Failed():
			return r.queue.Err()
		case <-timer.C:
			r.quiet = true
		case <-r.wake:
		case <-r.roomSignal:
			r.roomSignal = nil
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
			switch err := r.hold(reason); {
			case ctx.Err() != nil:
				return nil // a caller that ends both may close the executor first
			case err != nil:
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

// takeIn accounts for an event and starts its job.
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
	case a.read != nil:
		r.readAgain(a.read)
		return
	}
	l := &r.levels[a.level]
	if a.returned > 0 {
		l.waiting = 0
		// Requests without wait come back first: they are answered at once.
		n := min(a.returned, l.asked)
		l.asked -= n
		l.stood(a.returned - n)
		return
	}
	if l.asked > 0 {
		l.asked--
	} else {
		l.stood(1)
	}
	l.waiting = int(min(a.delivery.Waiting, 1<<30))
	for i := range r.levels {
		r.levels[i].active = job.Priority(i) == a.level
	}
	r.begin(a.delivery, nil)
}

// keptLong is how long a job may wait for its turn before a look-up checks whether it was
// canceled, on a store where another node may have done that.
const keptLong = time.Second

// Ended implements group.Call.
func (r *runner) Ended() bool { return r.ended() != nil }

// begin makes an attempt of a delivery. If something else may be stored about the job, it
// is looked up first. k is not nil for a job with a group that has its turn.
func (r *runner) begin(d engine.Delivery, k *group.Job) {
	q := r.queue
	r.counters.Taken.Add(1)
	q.InHand.Add(1)
	r.all.Add(1)
	a := q.newAttempt(r, d)
	var s *record.Job
	var err error
	look := false // the job may have been canceled without this node's notice
	if k != nil {
		a.kept.Store(k)
		s = k.Stored
		look = s == nil || q.Engine.Shared() && a.taken.Sub(k.Came) > keptLong
		a.extended.Store(k.Renewed.UnixNano())
		k.Stored, k.Delivery = nil, engine.Delivery{} // the attempt owns them now
	}
	if s == nil {
		s, err = record.DecodeJob(a.id(), d.Data)
	}
	if err == nil {
		a.is(s)
	} else {
		a.is(&record.Job{ID: a.id()})
	}
	if !q.take(a) {
		d.Extend() // this node has it already: the lease ended because the node was stalled
		a.answered()
		return
	}
	r.renewLater()
	if err != nil {
		a.corrupt(err)
		return
	}
	if !s.Job.At.IsZero() {
		// The server moved it from its time to its queue without a sync.
		q.Engine.Settle(func(error) {})
	}
	// A Cancel from here on finds the attempt; an earlier one is seen by Canceled.
	look = look || q.Canceled(a.id())
	if look || d.Deliveries > 1 || d.Old || d.Again || s.Again || s.Derived || s.Job.Key != "" || q.MemberEnded(s) {
		r.looking++
		a.background(a.lookUp, func() { r.arrived(arrival{looked: a}) })
		return
	}
	r.ready = append(r.ready, a)
}

// handOver hands ready jobs to the executor as far as it has places, and returns how many
// places are left. While a job remains ready that is 0: a place freed meanwhile goes to
// that job at once, or awaitPlace waits for it.
func (r *runner) handOver() (left int) {
	for {
		places := max(r.places(), 0)
		if places == 0 || len(r.ready) == 0 {
			return places
		}
		r.start(places)
	}
}

// start hands over as many ready jobs as there are places, and returns how many places
// are left.
func (r *runner) start(places int) (left int) {
	n := min(places, len(r.ready))
	for _, a := range r.ready[:n] {
		a.handOver()
	}
	rest := copy(r.ready, r.ready[n:])
	clear(r.ready[rest:])
	r.ready = r.ready[:rest]
	return places - n
}

// places returns how many jobs the executor can start now.
func (r *runner) places() int {
	places := r.executor.Capacity()
	if c := r.config.Concurrency; c > 0 {
		places = min(places, c-int(r.held.Load()))
	}
	return places
}

// returnReady gives back the jobs that wait for a place, so that another node may have
// them.
func (r *runner) returnReady() {
	for _, a := range r.ready {
		a.conclude(decision{step: stepGiveBack}, attemptEnd{})
	}
	clear(r.ready)
	r.ready = r.ready[:0]
}
