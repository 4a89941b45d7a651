package pool

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// Pool runs tasks in goroutines of its own. All methods are safe for concurrent use. New
// makes a pool; Drain, Stop and Close shut it down.
type Pool struct {
	config Config
	epoch  time.Time // zero of the clock of now
	procs  int
	// main is the target of the pool itself.
	main      target
	handlers  map[string]*target // of Submit; immutable
	admission admission
	shards    []*queue
	// shardMask is the number of shards, a power of two, minus one.
	shardMask uint64
	ready     readyLanes
	bench     bench
	done      chan struct{} // closed when running tasks are canceled
	gone      chan struct{} // closed when the pool has ended

	_            [64]byte
	workerCounts atomic.Uint64 // see counts.go
	_            [56]byte
	clock        atomic.Int64 // the time at the last tick
	long         atomic.Bool  // tasks are so long that all are measured
	max          atomic.Int64
	nesting      atomic.Int64 // workers whose task has submitted to this pool
	_            [32]byte

	state    lifecycle.Machine[State]
	guests   atomic.Int64 // tasks that run or are being answered outside of workers
	spare    sync.Pool    // of *worker: idle guests
	room     bullpen.RoomSignal
	min      atomic.Int64
	stuck    atomic.Int64 // bodies that go on although their tasks were answered
	keeper   keeper
	counters counters
	journal  journal

	mu       sync.Mutex
	workers  map[*worker]struct{} // not replaced ones. mu guards the fields below
	hired    int
	alive    int                       // goroutines that must end before the pool ends
	visitors map[*taskContext]struct{} // of tasks that callers run
	spans    map[*span]struct{}        // of guests
	lanes    []*Lane
	delayed  delayed
	grace    *time.Timer // timer of Close
	closers  []func()    // called once when the pool has ended
	ended    sync.Once   // calls closers
	left     []string    // bodies still running after the grace of Close
}

// New makes a pool and starts Min workers. An error lists all faults of c.
func New(c Config) (*Pool, error) { return newPool(c, runtime.GOMAXPROCS(0)/processorsPerShard) }

func newPool(c Config, shards int) (*Pool, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	c.complete()
	p := &Pool{
		config: c, epoch: time.Now(), procs: runtime.GOMAXPROCS(0),
		done: make(chan struct{}), gone: make(chan struct{}),
		workers: map[*worker]struct{}{}, visitors: map[*taskContext]struct{}{},
	}
	p.state.Init(&poolStates, Open)
	p.min.Store(int64(c.Min))
	p.max.Store(int64(c.Max))
	p.clock.Store(p.now())
	p.counters.init(p)
	p.main = target{pool: p, kind: p.counters.kind("task"), timeout: c.Timeout}
	p.handlers = make(map[string]*target, len(c.Handlers))
	for name := range c.Handlers {
		p.handlers[name] = p.With(Options{Name: name}).target
	}
	p.makeShards(shards)
	p.journal.open(c.Logger, c.Name)
	p.keeper.init(p)
	for range c.Min {
		p.workerCounts.Add(oneWorker + oneSearching)
		p.hire()
	}
	return p, nil
}

// makeShards divides the queue into up to n shards, for many processors. It uses one shard
// if a single worker must keep the order of all tasks, or if DropOldest must find the
// oldest task.
func (p *Pool) makeShards(n int) {
	if p.config.Max == 1 || p.config.Overflow == DropOldest {
		n = 1
	}
	n = 1 << (bits.Len(uint(max(1, min(n, mostShards)))) - 1)
	p.admission = admission{pool: p, bound: p.config.Queue, overflow: p.config.Overflow}
	for range n {
		p.shards = append(p.shards, &queue{pool: p, admission: &p.admission})
	}
	p.admission.queues = p.shards
	p.shards[0].in.room = p.config.Queue
	p.shardMask = uint64(n - 1)
}

// A shard serves two processors. Callers write one side of it and workers the other; on two
// processors this has proved faster than two shards.
const (
	processorsPerShard = 2
	mostShards         = 32
)

// now returns the time in nanoseconds since the pool was made, at least 1.
func (p *Pool) now() int64 { return int64(time.Since(p.epoch)) + 1 }

// Name returns the pool's name.
func (p *Pool) Name() string { return p.config.Name }

// work reports whether items wait that a worker could take. It takes no lock.
func (p *Pool) work() bool {
	for _, q := range p.shards {
		if q.work() {
			return true
		}
	}
	return p.ready.n.Load() > 0
}

// hire starts a worker that is already counted as searching.
func (p *Pool) hire() {
	if !p.employ(func(w *worker) { w.searching = true }) {
		p.discount(oneWorker + oneSearching)
	}
}

// hireFor starts a worker that is already counted, with its first item. It returns false if
// the pool has ended.
func (p *Pool) hireFor(it item) bool {
	hired := p.employ(func(w *worker) {
		w.items[0], w.stamps[0], w.first = it, stampOf(p.now(), 1), true
		w.own.Store(pack(1, 1))
	})
	if !hired {
		p.discount(oneWorker)
	}
	return hired
}

// employ starts a worker, which from then on keeps the pool from ending. It returns false
// if the pool has ended since the worker was counted.
func (p *Pool) employ(prepare func(*worker)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.State() == Closed {
		return false
	}
	p.hired++
	p.alive++
	w := &worker{
		pool: p, id: p.hired, home: p.counters.stripe(p.hired),
		wake: make(chan wakeUp, 1), clock: p.clock.Load(), rare: true,
	}
	w.ctx = &workerContext{worker: w}
	prepare(w)
	p.workers[w] = struct{}{}
	w.emit(Event{Kind: Started})
	p.wakeKeeper() // the keeper's pace depends on the workers
	go w.main()    // ends by surplus, retire, quits or loss; the shutdown waits for alive
	return true
}

// name returns the worker's name for events and results.
func (w *worker) name() string { return fmt.Sprintf("%s-%d", w.pool.config.Name, w.id) }

// leave ends a worker; it is the worker's last step.
func (w *worker) leave() {
	p := w.pool
	w.gone()
	p.mu.Lock()
	defer p.mu.Unlock()
	w.emit(Event{Kind: Stopped})
	if _, here := p.workers[w]; !here {
		return // giveUp has removed it
	}
	delete(p.workers, w)
	p.alive--
	p.tryFinish()
}

// surplus lets a worker exit if there are too many.
func (p *Pool) surplus(w *worker) bool {
	for {
		h := p.counts()
		if h.size() <= p.most() {
			return false
		}
		delta := uint64(oneWorker)
		if w.searching {
			delta += oneSearching
		}
		if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)-delta) {
			w.searching = false
			if p.work() {
				p.callOne() // the caller that queued an item may have relied on this worker
			}
			p.madeRoom()
			return true
		}
	}
}

// Resize changes the bounds of the number of workers. It takes effect immediately; surplus
// workers exit after their current task. It returns an error for bounds that New would
// refuse.
func (p *Pool) Resize(minimum, maximum int) error {
	c := Config{Min: minimum, Max: maximum}
	err := c.check()
	if maximum < 1 {
		err = errors.Join(err, fmt.Errorf("Max is %d: use a positive number of workers", maximum))
	}
	if err != nil {
		return fmt.Errorf("pool %q: resize: %w", p.config.Name, err)
	}
	p.min.Store(int64(minimum))
	p.max.Store(int64(maximum))
	for h := p.counts(); h.size() < minimum && !p.ending(); h = p.counts() {
		if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)+oneWorker+oneSearching) {
			p.hire()
		}
	}
	for p.counts().size() > maximum && p.dismiss() {
	}
	if p.work() {
		p.call()
	}
	p.madeRoom()
	return nil
}

// dismiss wakes the longest-parked worker to exit. It returns false if none is parked.
func (p *Pool) dismiss() bool {
	for {
		h := p.counts()
		if h.parked() == 0 {
			return false
		}
		if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)-oneParked-oneWorker) {
			p.bench.coldest().wake <- wakeGo
			return true
		}
	}
}

func (p *Pool) dismissAll() {
	for p.dismiss() {
	}
}

// workerContext is the context of tasks without their own context. It ends when the pool is
// closed. It is not reused for other workers, so a body may keep it.
type workerContext struct{ worker *worker }

func (*workerContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (c *workerContext) Done() <-chan struct{}                 { return c.worker.pool.done }
func (c *workerContext) Err() error {
	select {
	case <-c.worker.pool.done:
		return context.Canceled
	default:
		return nil
	}
}

func (c *workerContext) Value(key any) any {
	if key == (workerKey{}) {
		return c.worker
	}
	return nil
}

// workerKey is the context key of the worker that runs a task.
type workerKey struct{}
