package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// LaneConfig configures a lane.
type LaneConfig struct {
	// Name appears in errors and statistics, and names the lane's tasks that have no name
	// of their own. It must be unique in the pool.
	Name string
	// Limit is how many tasks of the lane run at a time; 0 means as many as the pool has
	// workers.
	Limit int
	// Queue is how many tasks may wait in the lane; 0 means DefaultQueue.
	Queue int
	// Overflow is the rule for a full queue. It cannot be CallerRuns, because the limit
	// would not apply to tasks that callers run.
	Overflow Overflow
	// Timeout is the maximum run time of the lane's tasks with a context; 0 means the
	// pool's, and a negative value none.
	Timeout time.Duration
	// Rate is how many tasks may start per second, up to 1e9; 0 means no limit. The
	// interval between two starts is rounded up to nanoseconds.
	Rate float64
	// Burst is how many tasks may start at once after a pause; 0 means 1.
	Burst int
}

// Lane is a part of a pool with its own queue, limit and rate. For example, a lane of ten
// serves ten database connections, and slow tasks in a lane do not take the workers that
// fast tasks need. [Pool.Lane] makes a lane; it ends with its pool. All methods are safe
// for concurrent use.
//
// A task of a lane waits in the lane's queue only, and goes to one of the pool's workers
// when the limit and the rate of the lane allow it. Lanes with work and the pool's own
// queue take turns.
//
// The limit protects the resource behind the lane, so a task counts until its body has
// returned. If a task overruns its timeout, its caller gets the outcome immediately and the
// pool starts another worker, but the place in the lane stays occupied until the body
// returns. There is one exception: if a task of the lane submits to its own lane, or waits
// for another task with its context, the lane may run one task more until it ends.
// Otherwise the task might wait for one that cannot start.
type Lane struct {
	pool      *Pool
	name      string
	main      target
	admission admission
	queue     queue
	started   atomic.Uint64
	refused   atomic.Uint64
	behind    *Lane // the next one in the list of ready lanes, whose lock guards it

	mu      sync.Mutex
	limit   int         // 0 is none. mu guards the fields below
	running int         // bodies
	nesting int         // running bodies for which one more may run
	listed  bool        // in the list of ready lanes, or being served
	meter   meter       // when the next start is due
	timer   *time.Timer // lists the lane when the rate allows a start; nil before the first use
	armed   bool        // the timer is set
}

// Lane makes a lane. An error lists all faults of c; if the pool is shutting down, it wraps
// bullpen.ErrClosed.
func (p *Pool) Lane(c LaneConfig) (*Lane, error) {
	m, err := c.check()
	if err != nil {
		return nil, fmt.Errorf("lane %q: %w", c.Name, err)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	l := &Lane{pool: p, name: c.Name, limit: c.Limit, meter: m}
	l.admission = admission{pool: p, bound: c.Queue, overflow: c.Overflow, queues: []*queue{&l.queue}}
	l.queue.pool, l.queue.lane, l.queue.admission = p, l, &l.admission
	l.queue.in.room = c.Queue
	l.main = target{pool: p, lane: l, timeout: p.config.Timeout}
	switch {
	case c.Timeout > 0:
		l.main.timeout = c.Timeout
	case c.Timeout < 0:
		l.main.timeout = 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending() { // otherwise the shutdown will find the lane
		return nil, fmt.Errorf("lane %q: %w", c.Name, p.closedError())
	}
	if slices.ContainsFunc(p.lanes, func(other *Lane) bool { return other.name == c.Name }) {
		return nil, fmt.Errorf("lane %q: the pool already has a lane of this name: use another name", c.Name)
	}
	l.main.kind = p.counters.kind(c.Name)
	admissions := append(slices.Clone(p.admissions()), &l.admission)
	p.ready.admissions.Store(&admissions)
	p.lanes = append(p.lanes, l)
	return l, nil
}

// check returns the lane's meter, and an error that lists all faults of c. It sets the
// default of Burst.
func (c *LaneConfig) check() (meter, error) {
	var errs []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Name != "", "Name is empty: give the lane a name")
	fault(c.Limit >= 0, "Limit is %d: use a positive number of bodies, or 0 for as many as the pool has workers", c.Limit)
	fault(c.Queue >= 0, "Queue is %d: use a positive number of tasks, or 0 for %d", c.Queue, DefaultQueue)
	fault(c.Overflow != CallerRuns, "Overflow is CallerRuns: bodies in callers would escape the limit; use Block, Reject or DropOldest")
	fault(c.Overflow <= CallerRuns, "Overflow is %d: use Block, Reject or DropOldest", c.Overflow)
	fault(c.Burst >= 0, "Burst is %d: use a positive number of starts, or 0 for 1", c.Burst)
	fault(c.Burst <= 0 || c.Rate != 0, "Burst is %d without a Rate: set both or none", c.Burst)
	c.Burst = max(c.Burst, 1)
	m := meter{}
	if c.Rate != 0 {
		var err error
		m, err = newMeter(c.Rate, c.Burst)
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func (l *Lane) at() *target { return &l.main }

// Name returns the lane's name.
func (l *Lane) Name() string { return l.name }

// With returns a submitter of the lane with the options o; see [Pool.With].
func (l *Lane) With(o Options) Submitter { return l.main.with(o) }

// Go is [Pool.Go] in the lane. It allocates two words.
func (l *Lane) Go(ctx context.Context, fn func()) error { return Submitter{&l.main}.Go(ctx, fn) }

// SetLimit changes how many tasks of the lane run at a time; 0 means as many as the pool
// has workers. It takes effect immediately, but does not interrupt running tasks.
func (l *Lane) SetLimit(limit int) error {
	if limit < 0 {
		return fmt.Errorf("lane %q: the limit is %d: use a positive number of bodies, or 0 for as many as the pool has workers", l.name, limit)
	}
	l.mu.Lock()
	l.limit = limit
	l.mu.Unlock()
	l.list()
	return nil
}

// LaneStats is a snapshot of a lane.
type LaneStats struct {
	// Name is the lane's name.
	Name string
	// Limit is how many tasks may run at a time, or 0 for as many as the pool has workers.
	// Queue is how many tasks may wait.
	Limit, Queue int
	// Running counts the bodies that have not returned, including those that have overrun.
	// Nesting counts those among them for which the lane may run one more.
	Running, Nesting int
	// Queued counts the waiting tasks; Delayed counts those among them whose delay has not
	// passed.
	Queued, Delayed int
	// Blocked counts the callers that wait for a place in the queue.
	Blocked int
	// Started counts the tasks given to a worker since the lane was made.
	Started uint64
	// Refused counts the tasks that were not accepted.
	Refused uint64
}

// Stats returns a snapshot. It holds the locks of the lane for about a microsecond and
// waits for no task.
func (l *Lane) Stats() LaneStats {
	delayed := int(max(l.admission.delayed.Load(), 0))
	s := LaneStats{
		Name: l.name, Queue: l.admission.bound, Queued: l.admission.count() + delayed, Delayed: delayed,
		Blocked: int(l.admission.blocked.Load()), Started: l.started.Load(), Refused: l.refused.Load(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Limit, s.Running, s.Nesting = l.limit, l.running, l.nesting
	return s
}

// OverflowOf returns the rule for a full queue at a target.
func OverflowOf(on Target) Overflow {
	if at := on.at(); at.lane != nil {
		return at.lane.admission.overflow
	}
	return on.at().pool.admission.overflow
}
