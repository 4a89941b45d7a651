package wasm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/internal/histogram"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/protocol"
)

// Pool runs tasks in instances of a WebAssembly module. New makes a pool; Drain, Stop and
// Close shut it down. All methods are safe for concurrent use.
type Pool struct {
	config  Config
	module  *module
	epoch   time.Time
	workers *pool.Pool // the goroutines that run instances
	runners sync.Pool  // of *runner
	said    feed.Source[record]
	log     *feed.Log[record] // nil without a logger
	events  feed.Source[Event]
	room    bullpen.RoomSignal
	alarm   alarm
	alarmMu sync.Mutex
	over    chan struct{} // closed when the pool has ended
	gaveUp  chan struct{} // closed when Close waits no longer

	mu       sync.Mutex
	state    lifecycle.Machine[State]
	queue    list        // accepted, waiting
	blocked  list        // waiting for a place in the queue
	running  list        // guarded by mu, as are all these fields
	idle     []*instance // the most recently used one is last
	made     int         // numbers the instances
	open     int         // accepted tasks whose outcome is not delivered
	pruner   *time.Timer // calls prune, nil before its first use
	pruning  bool        // pruner is set
	patience *time.Timer // of Close, nil before Close
	endErr   error
	counters counters

	image                             atomic.Pointer[image] // with Restore, nil before the first instance
	instantiated, discarded, restored atomic.Uint64
	ticks                             atomic.Uint64 // of discarded instances
	waits, runs                       histogram.Counter
}

var (
	_ bullpen.RoomNotifier = (*Pool)(nil)
	_ bullpen.Checker      = (*Pool)(nil)
)

// New loads, rewrites and compiles the module, and makes a pool of its instances. An error
// lists all faults of c, or all that the module asks for and does not get. Compiling takes
// some milliseconds for each 100 kB of code; see Config.CacheDir.
func New(c Config) (*Pool, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("wasm: %w", err)
	}
	c.complete()
	c.Tasks, c.Args, c.Env, c.Mounts = slices.Clone(c.Tasks), slices.Clone(c.Args), slices.Clone(c.Env), slices.Clone(c.Mounts)
	m, err := load(&c)
	if err != nil {
		return nil, fmt.Errorf("wasm %q: %w", c.Name, err)
	}
	// A runner that has given up its place may still occupy its goroutine.
	workers, err := pool.New(pool.Config{Name: c.Name, Max: c.Max, Queue: 2*c.Max + 2, Idle: c.Idle, CloseGrace: c.CloseGrace})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	c.Code = nil
	p := &Pool{config: c, module: m, epoch: time.Now(), workers: workers, over: make(chan struct{}), gaveUp: make(chan struct{})}
	p.state.Init(&poolStates, Open)
	p.alarm.init(p)
	p.runners.New = func() any { return newRunner(p) }
	if c.Logger != nil {
		logger := c.Logger.With("pool", c.Name)
		p.log = p.said.Log(func(r record) { r.log(logger) })
	}
	if err := p.try(); err != nil {
		return nil, fmt.Errorf("wasm %q: %w", c.Name, errors.Join(err, p.Close()))
	}
	return p, nil
}

// now returns the time since the pool's epoch.
func (p *Pool) now() int64 { return int64(time.Since(p.epoch)) }

// Name returns the pool's name.
func (p *Pool) Name() string { return p.config.Name }

// Config returns the configuration with its defaults filled in, without Code.
func (p *Pool) Config() Config { return p.config }

// State returns the state of the pool.
func (p *Pool) State() State { return p.state.State() }

// Submit submits t; see [bullpen.Executor]. done is called by the goroutine that ran the
// task, or by the one that ended it before.
func (p *Pool) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if done == nil {
		return errors.New("wasm: done is nil: give a function that takes the outcome")
	}
	c, err := p.accept(ctx, t)
	if err != nil {
		return err
	}
	c.done = done
	start, err := p.enter(c) //nolint:contextcheck // guests have contexts of their own
	if start {
		p.start(c) //nolint:contextcheck // guests have contexts of their own
	}
	return err
}

// Execute submits t and waits for its outcome; see [bullpen.Execute]. If the task can start
// at once, the caller's goroutine runs it.
func (p *Pool) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	c, err := p.accept(ctx, t)
	if err != nil {
		return bullpen.Result{}, err
	}
	start, err := p.enter(c) //nolint:contextcheck // guests have contexts of their own
	if err != nil {
		return bullpen.Result{}, err
	}
	if start {
		c.here = true
		if next := p.serve(c); next != nil { //nolint:contextcheck // guests have contexts of their own
			p.start(next) //nolint:contextcheck // guests have contexts of their own
		}
	} else {
		<-c.ready
	}
	r, err := c.result, c.err
	c.forget()
	return r, err
}

// accept checks a task and makes its call.
func (p *Pool) accept(ctx context.Context, t bullpen.Task) (*call, error) {
	if err := p.Check(t); err != nil {
		p.mu.Lock()
		p.counters.refused++
		p.mu.Unlock()
		return nil, err
	}
	c := newCall()
	c.task, c.ctx, c.accepted = t, ctx, p.now()
	l := p.config.Limits
	c.memory, c.output, c.timeout = l.Memory, l.Output, l.Timeout
	if t.Limits.Memory > 0 {
		c.memory = min(t.Limits.Memory, most32)
	}
	if t.Limits.Output > 0 {
		c.output = t.Limits.Output
	}
	if t.Limits.Timeout > 0 {
		c.timeout = t.Limits.Timeout
	}
	if ctx.Done() != nil {
		// The goroutine ends at once.
		c.unwatch = context.AfterFunc(ctx, func() { p.cancel(c, context.Cause(ctx)) }) //nolint:contextcheck // guests have contexts of their own
	}
	return c, nil
}

// Check reports why the pool would refuse t; see [bullpen.Checker].
func (p *Pool) Check(t bullpen.Task) error {
	if !p.module.serves(t.Name) {
		return fmt.Errorf("wasm %q: %w %q", p.config.Name, bullpen.ErrUnknownTask, t.Name)
	}
	if t.Limits == (bullpen.Limits{}) && len(t.Payload) <= page && len(t.Meta) == 0 {
		return nil
	}
	err := t.Limits.Check()
	if p.module.speaks {
		for key := range t.Meta {
			err = errors.Join(err, protocol.CheckPair(key))
		}
	}
	if t.Limits.CPU > 0 {
		err = errors.Join(err, errors.New(noCPU))
	}
	if least := p.module.least; t.Limits.Memory > 0 && t.Limits.Memory < least {
		err = errors.Join(err, fmt.Errorf("limit Memory is %s, but an instance begins with %s", size(t.Limits.Memory), size(least)))
	}
	if int64(len(t.Payload)) >= most32 {
		err = errors.Join(err, fmt.Errorf("the payload has %s, more than an instance can address", size(int64(len(t.Payload)))))
	}
	if err != nil {
		return fmt.Errorf("wasm %q: task %q: %w: %w", p.config.Name, t.Name, bullpen.ErrRefused, err)
	}
	return nil
}

// Capacity returns how many more tasks could start now.
func (p *Pool) Capacity() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capacity()
}

// capacity is Capacity with mu held.
func (p *Pool) capacity() int {
	if p.state.State() != Open {
		return 0
	}
	return max(0, p.config.Max-p.running.n-p.queue.n)
}

// Room returns a channel that is closed when Capacity is above 0, and when the pool begins
// to shut down; see [bullpen.RoomNotifier].
func (p *Pool) Room() <-chan struct{} {
	c := p.room.Next()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.madeRoom()
	return c
}

// madeRoom notifies the waiters if there is room, or if there will never be any. mu is held.
func (p *Pool) madeRoom() {
	if p.room.HasWaiters() && (p.capacity() > 0 || p.state.State() != Open) {
		p.room.Notify()
	}
}

// Guarantees returns what the pool guarantees for tasks in instances.
func (p *Pool) Guarantees() bullpen.Guarantees {
	g := bullpen.Guarantees{
		Preemptive: true, CrashProof: true, OrphanProof: true, MemoryBound: true, NoNetwork: true, Exact: true,
		NoFilesystem: len(p.config.Mounts) == 0,
		Notes: []string{
			"an instance is a part of this program: it is as safe as the compiler that made its code, and a fault of that is one of this program (CrashProof)",
			"the bound of the memory is that of the instance's own memory; its call stack, 100 MB at the most, comes on top (MemoryBound)",
			"a task has one processor at the most, and less cannot be enforced (CPUBound)",
		},
	}
	if !g.NoFilesystem {
		g.Notes = append(g.Notes, "tasks can reach the mapped folders (NoFilesystem)",
			"a file operation that hangs in the kernel ends when the kernel ends it (Preemptive)")
	}
	return g
}
