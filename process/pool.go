package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/internal/wire/frames"
)

// Pool is an elastic set of worker processes of one kind behind one bounded queue. It
// implements [bullpen.Executor]. All methods are safe for concurrent use.
type Pool struct {
	config  *resolved
	epoch   time.Time
	spawn   *confine.Spawner
	groups  *confine.Groups  // of the workers; nil if they have no bounds, or memory is watched
	scratch *confine.Scratch // of the temporary folders; nil without them
	unbound error            // why memory is watched instead of bounded; nil if it is not watched
	state   lifecycle.Machine[State]
	events  feed.Source[Event]
	logs    *logs
	spin    spinner
	late    late
	room    bullpen.RoomSignal

	// What only some pools have:
	share      *share      // nil without a budget
	forkServer *forkServer // nil without modules to preload

	// The keeper, and the end of the pool:
	poke     chan struct{} // wakes the keeper; its capacity is 1
	over     chan struct{} // closed when the pool has ended completely
	tasks    sync.WaitGroup
	informed atomic.Uint64 // accepted tasks whose outcome was delivered

	// Tasks that wait, and workers:
	mu       sync.Mutex
	queue    list                       // guarded by mu
	blocked  waiters                    // callers that wait for a place in the queue; guarded by mu
	workers  []*worker                  // processes, and those about to start; guarded by mu
	idle     []*worker                  // least recently used first; guarded by mu
	last     *worker                    // the last worker that was given a task; guarded by mu
	hello    *frames.Hello              // of the worker that last became ready; guarded by mu
	ready    map[chan struct{}]struct{} // callers of Ready and Reload that wait; guarded by mu
	counters counters                   // guarded by mu

	// Counts and targets:
	inHand   int // tasks assigned to workers; guarded by mu
	starting int // guarded by mu
	leaving  int // guarded by mu
	names    int // workers ever started; guarded by mu
	min, max int // guarded by mu
	warm     int // number of workers that Ready waits for; guarded by mu

	meanRun   mean // run time of tasks, ns; guarded by mu
	meanStart mean // time from start to ready, ns; guarded by mu

	// What the keeper goes by, and the end:
	failures  int           // failed starts in a row; guarded by mu
	nextStart int64         // no worker starts before this time; guarded by mu
	startErr  error         // of the last failed start; guarded by mu
	age       int           // generation of the workers' code; guarded by mu
	wakeAt    int64         // when the keeper next wakes; guarded by mu
	crowded   bool          // tasks waited behind others since the last pass of the keeper; guarded by mu
	tending   bool          // the keeper is in a pass; guarded by mu
	closeBy   int64         // when Close gives up; 0 before Close; guarded by mu
	endErr    error         // result of Close; guarded by mu
	gaveUp    chan struct{} // closed when closeBy has passed, with mu held
}

var _ bullpen.RoomNotifier = (*Pool)(nil)

// New checks c and returns a new pool. It reports all faults of c at once. New starts
// Min workers and does not wait for them; [Pool.Ready] does. It takes about a
// millisecond, for the guard process that ends the workers when the host dies. The
// caller must end the pool with Drain, Stop or Close.
func New(c Config) (*Pool, error) {
	r, err := resolve(c)
	if err != nil {
		return nil, err
	}
	spawn, err := confine.NewSpawner(r.profile())
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	p := &Pool{
		config: r, epoch: time.Now(), spawn: spawn,
		poke: make(chan struct{}, 1), over: make(chan struct{}), gaveUp: make(chan struct{}),
		min: r.Min, max: r.Max, ready: map[chan struct{}]struct{}{},
	}
	if err := p.openIsolation(); err != nil {
		return nil, errors.Join(err, spawn.Close())
	}
	if err := p.joinBudget(); err != nil {
		return nil, errors.Join(err, spawn.Close(), p.closeIsolation())
	}
	p.state.Init(&poolStates, Open)
	p.late.pool = p
	p.logs = newLogs(r.Logger.With("pool", r.Name), r.LogRate, p.tell)
	p.spin.init()
	p.openForkServer()
	// The keeper goroutine ends with the pool and closes over.
	go p.keep()
	return p, nil
}

// Config returns the configuration with its defaults filled in.
func (p *Pool) Config() Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.config.Config
	c.Min, c.Max = p.min, p.max
	return c
}

// now returns the time since the pool's epoch in nanoseconds.
func (p *Pool) now() int64 { return int64(time.Since(p.epoch)) }

// Guarantees reports what the pool can guarantee on this machine.
func (p *Pool) Guarantees() bullpen.Guarantees {
	g := bullpen.Guarantees{Preemptive: true, CrashProof: true, Exact: p.config.exact}
	var why string
	if g.OrphanProof, why = p.spawn.OrphanProof(); !g.OrphanProof {
		g.Notes = append(g.Notes, why)
	}
	if p.config.loss != "" {
		g.Notes = append(g.Notes, "protocol "+p.config.name+": "+p.config.loss)
	}
	if p.config.network && runtime.GOOS != "linux" {
		g.Notes = append(g.Notes, "protocol "+p.config.name+": other users of this machine can reach the ports of workers, as this system does not say whose a connection is")
	}
	if p.config.Batch.Max > 1 {
		g.Notes = append(g.Notes, "Batch: if a worker dies, all tasks of its call end so")
	}
	p.promiseBounds(&g)
	return g
}

// Capacity reports how many more tasks would be handed to a worker immediately,
// counting workers that could still be started.
func (p *Pool) Capacity() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capacity()
}

// capacity is Capacity with Pool.mu held.
func (p *Pool) capacity() int {
	if p.state.State() != Open {
		return 0
	}
	if p.config.perTask {
		return max(0, p.placesFree()-p.queue.n)
	}
	n := 0
	for _, w := range p.workers {
		n += max(w.room(), 0)
		if w.state.State() == WorkerStarting {
			n++
		}
	}
	n += p.startable(p.max - len(p.workers))
	return max(0, n*p.config.each()-p.queue.n)
}

// Room returns a channel that is closed as soon as Capacity is above 0, and when the
// pool begins to end; see [bullpen.RoomNotifier]. With a Budget, the channel may also
// be closed when another pool has made room while Capacity is still 0.
func (p *Pool) Room() <-chan struct{} {
	c := p.room.Next()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.madeRoom()
	return c
}

// madeRoom wakes the callers of Room if there is room, or if the pool is ending.
// Pool.mu is held.
func (p *Pool) madeRoom() {
	if p.room.HasWaiters() && (p.state.State() != Open || p.capacity() > 0) {
		p.room.Notify()
	}
}

// Ready starts workers until n of them, at most Max, are ready (idle or busy), and
// waits for them. Workers beyond Min end again after their idle time. If the pool has
// given up starting workers, Ready returns the error of the last start.
func (p *Pool) Ready(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		have := p.inState(WorkerIdle) + p.inState(WorkerBusy)
		state, failures, err := p.state.State(), p.failures, p.startErr
		if have >= min(n, p.max) {
			p.warm = 0
			p.mu.Unlock()
			return nil
		}
		if state != Open {
			p.mu.Unlock()
			return bullpen.ErrClosed
		}
		if failures >= breakAfter {
			p.mu.Unlock()
			return err
		}
		c := make(chan struct{})
		p.ready[c] = struct{}{}
		p.warm = max(p.warm, min(n, p.max))
		p.wakeBy(0)
		p.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			p.mu.Lock()
			p.warm = 0
			delete(p.ready, c)
			p.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// wakeReady wakes the callers of Ready and Reload. Pool.mu is held.
func (p *Pool) wakeReady() {
	for c := range p.ready {
		close(c)
	}
	clear(p.ready)
}

// Resize changes Min and Max while the pool runs. Workers above maximum leave when they
// become idle. Resize fails when the pool's Budget cannot promise minimum workers.
func (p *Pool) Resize(minimum, maximum int) error {
	if minimum < 0 || maximum < 1 || maximum < minimum {
		return fmt.Errorf("process: resize to %d..%d: use 0 <= min <= max and max >= 1", minimum, maximum)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.share != nil {
		if err := p.share.budget.promise(p.share.account, minimum); err != nil {
			return fmt.Errorf("process: resize to %d..%d: %w", minimum, maximum, err)
		}
	}
	p.min, p.max = minimum, maximum
	p.wakeBy(0)
	p.madeRoom()
	return nil
}

// wakeBy makes the keeper run at time t at the latest. Pool.mu is held.
func (p *Pool) wakeBy(t int64) {
	if t < p.wakeAt {
		p.wakeAt = t
		if p.tending {
			return // this is the keeper, which reads wakeAt after its pass
		}
		select {
		case p.poke <- struct{}{}:
		default:
		}
	}
}

// window returns the most tasks that may be assigned to one worker. Pool.mu is held.
func (p *Pool) window() int {
	if most := cmp.Or(p.config.most, p.config.Window); most > 0 {
		return most
	}
	return window(time.Duration(p.meanRun))
}
