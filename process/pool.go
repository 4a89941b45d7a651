package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/internal/wire/frames"
)

// Pool is an elastic set of worker processes of one kind behind one bounded
// queue. It is a [bullpen.Executor]. All methods are safe for concurrent use.
type Pool struct {
	config  *resolved
	epoch   time.Time
	spawn   *confine.Spawner
	groups  *confine.Groups  // of the workers; nil: they have no bounds, or memory is watched
	scratch *confine.Scratch // of their temporary folders; nil: they have none
	unbound error            // why memory is watched and not bounded; nil: it is not
	state   lifecycle.Machine[State]
	logs    *logs
	spin    spinner
	late    late
	room    bullpen.RoomSignal

	share      *share      // nil without a budget
	forkServer *forkServer // nil without modules to preload

	poke     chan struct{} // wakes the keeper; one element is enough
	over     chan struct{} // closed when nothing of the pool is left
	tasks    sync.WaitGroup
	informed atomic.Uint64 // accepted tasks whose caller knows the outcome

	mu      sync.Mutex
	queue   list                       // +checklocks:mu
	blocked waiters                    // callers before a full queue; +checklocks:mu
	workers []*worker                  // all that are processes or about to be; +checklocks:mu
	idle    []*worker                  // ready and without work, last used last; +checklocks:mu
	last    *worker                    // that was given a task; +checklocks:mu
	hello   *frames.Hello              // of the worker that became ready last; +checklocks:mu
	feeds   []*Feed                    // +checklocks:mu
	ready   map[chan struct{}]struct{} // those who wait for a worker to become ready or to end; +checklocks:mu
	tally   tally                      // +checklocks:mu

	inHand   int // tasks with workers; +checklocks:mu
	starting int // +checklocks:mu
	leaving  int // +checklocks:mu
	names    int // workers ever started; +checklocks:mu
	min, max int // +checklocks:mu
	warm     int // workers that Ready waits for; +checklocks:mu

	meanRun   mean // of tasks, ns; +checklocks:mu
	meanStart mean // of starts, ns; +checklocks:mu

	failures  int           // failed starts in a row; +checklocks:mu
	nextStart int64         // no start before; +checklocks:mu
	startErr  error         // of the last failed start; +checklocks:mu
	age       int           // generation of the workers' code; +checklocks:mu
	wakeAt    int64         // when the keeper wakes by itself; +checklocks:mu
	crowded   bool          // tasks waited for others since the keeper looked; +checklocks:mu
	tending   bool          // the keeper is at work; +checklocks:mu
	closeBy   int64         // when Close gives up waiting, 0 for not yet; +checklocks:mu
	endErr    error         // what Close has to say; +checklocks:mu
	gaveUp    chan struct{} // closed when closeBy has passed; +checklocks:mu
}

var _ bullpen.RoomNotifier = (*Pool)(nil)

// New checks c and makes a pool of it. All faults of c are reported at once. It
// starts Min workers and does not wait for them; [Pool.Ready] does. It costs
// about a millisecond for the guard that ends the workers with the host. The
// pool must be ended by Drain, Stop or Close.
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
	// The keeper and the log writer end with the pool; the keeper closes over.
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

// now is the time since the pool's epoch in nanoseconds.
func (p *Pool) now() int64 { return int64(time.Since(p.epoch)) }

// Guarantees tells what the pool can promise on this machine.
func (p *Pool) Guarantees() bullpen.Guarantees {
	g := bullpen.Guarantees{Preemptive: true, CrashProof: true, Exact: p.config.Protocol == Exec}
	var why string
	if g.OrphanProof, why = p.spawn.OrphanProof(); !g.OrphanProof {
		g.Notes = append(g.Notes, why)
	}
	switch p.config.Protocol {
	case Lines:
		g.Notes = append(g.Notes, "protocol lines: lines that a dead worker had read and not answered are lost")
	case Frames:
		g.Notes = append(g.Notes, "protocol frames: a task that had ended when its worker died, before its answer was sent, is lost")
	case Exec:
	}
	p.promiseBounds(&g)
	return g
}

// Capacity tells how many more tasks would be handed to a worker at once: free
// places of workers, and workers that may still be started.
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
	n := 0
	for _, w := range p.workers {
		n += max(w.room(), 0)
		if w.state.State() == WorkerStarting {
			n++
		}
	}
	if p.config.Protocol == Exec && p.share != nil {
		return max(0, p.placesFree()-p.queue.n)
	}
	return max(0, n+p.startable(p.max-len(p.workers))-p.queue.n)
}

// Room returns a channel that is closed as soon as Capacity is above 0, and when the
// pool begins to end; see [bullpen.RoomNotifier]. With a Budget it may be closed too
// when another pool has made room and Capacity is still 0.
func (p *Pool) Room() <-chan struct{} {
	c := p.room.Next()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.madeRoom()
	return c
}

// madeRoom tells those who wait for it that there is room, or that none will be.
// Pool.mu is held.
func (p *Pool) madeRoom() {
	if p.room.HasWaiters() && (p.state.State() != Open || p.capacity() > 0) {
		p.room.Notify()
	}
}

// Ready starts workers until n are ready (idle or busy), or as many as Max, and
// waits for them. Those beyond Min leave again when they have idled. It returns
// the error of the last start when the pool gave up starting workers.
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

// wakeReady wakes those who wait in Ready and Reload. Pool.mu is held.
func (p *Pool) wakeReady() {
	for c := range p.ready {
		close(c)
	}
	clear(p.ready)
}

// Resize changes the bounds of the pool while it runs. Workers above max leave
// as they become idle. It fails when the pool's Budget cannot promise so many as
// min.
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

// wakeBy makes the keeper look at time t at the latest. Pool.mu is held.
func (p *Pool) wakeBy(t int64) {
	if t < p.wakeAt {
		p.wakeAt = t
		if p.tending {
			return // the keeper itself: it looks at wakeAt when it is through
		}
		select {
		case p.poke <- struct{}{}:
		default:
		}
	}
}

// window is how many tasks one worker may have in hand. Pool.mu is held.
func (p *Pool) window() int {
	if p.config.Protocol == Exec {
		return 1
	}
	if p.config.Window > 0 {
		return p.config.Window
	}
	return window(time.Duration(p.meanRun))
}
