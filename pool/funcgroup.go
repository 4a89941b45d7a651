package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrGroupOver is returned by Go of a group after its Wait has returned. Make a new group
// for more tasks.
var ErrGroupOver = errors.New("the group has ended: make a new one for more tasks")

// IndexError is the error of one of several tasks.
type IndexError struct {
	// Index counts the accepted tasks in the order of submission, from 0.
	Index int
	// Err is the error of the task.
	Err error
}

// Error returns the index and the error of the task.
func (e *IndexError) Error() string { return fmt.Sprintf("task %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *IndexError) Unwrap() error { return e.Err }

// FuncGroup is a group of tasks of one typed function, with results in the order of
// submission. A task allocates nothing, unless its submitter has a timeout or a delay (then
// about two hundred bytes). All methods are safe for concurrent use.
type FuncGroup[A, R any] struct {
	span  span
	f     *Func[A, R]
	rule  ErrorRule
	limit chan struct{} // has a token for each task; nil without a limit
	ends  bool          // the caller's context can end
	apart bool          // tasks have their own contexts, and are jobs
	spare *sync.Pool    // of *slab[A, R]
	host  *worker       // worker whose task made the group, or nil
	queue *queue        // where all its tasks wait

	slabs []*slab[A, R] // queue.in.mu guards these three
	n     uint64        // submitted tasks, including refused ones
	over  bool          // no more tasks are accepted

	done    atomic.Uint64 // tasks that have ended, except those that workers have not reported yet
	target  atomic.Uint64 // 1 + the value of done at which to ring the bell; 0 is never
	stopped atomic.Bool   // no more tasks start
	lost    atomic.Bool   // some tasks were answered while their bodies keep running
	bell    chan struct{} // for Wait; has room for one

	mu     sync.Mutex
	jobs   []*groupJob[A, R] // mu guards the fields below
	room   []groupJob[A, R]  // preallocated jobs
	fails  map[any]error     // by *cell or *groupJob
	cause  error             // why the group was stopped
	first  any               // the task that failed first
	unhook func() bool       // stops watching the caller's context

	waited  sync.Mutex // held by Wait; guards the fields below
	ready   bool
	results []R
	errs    []error
	err     error
}

// Group makes a group. The context of its tasks ends with ctx, at the first failure if the
// rule is [FirstError], and when Wait returns. A group costs less than a microsecond and
// some hundred bytes.
func (f *Func[A, R]) Group(ctx context.Context, c GroupConfig) *FuncGroup[A, R] {
	return f.group(ctx, c, &f.slabs)
}

func (f *Func[A, R]) group(ctx context.Context, c GroupConfig, spare *sync.Pool) *FuncGroup[A, R] {
	g := &FuncGroup[A, R]{f: f, rule: c.Errors, spare: spare, bell: make(chan struct{}, 1)}
	g.apart = f.target.timeout > 0 || f.target.delay > 0
	g.queue = f.target.queueOf()
	if c.Limit > 0 {
		g.limit = make(chan struct{}, c.Limit)
	}
	g.span.init(ctx, f.target.pool)
	g.host = f.target.pool.workerOf(ctx)
	if ctx.Done() != nil {
		g.ends = true
		g.watchCaller(ctx)
	}
	return g
}

// Go submits a task. It waits while the group has reached its limit, and then follows the
// queue's overflow rule. It returns an error if the task was not accepted: the group was
// stopped by its context or by a failure, the group has ended ([ErrGroupOver]), or the
// queue is full or closed.
//
// A task that adds tasks to its own group must not block doing so. Give such a group no
// limit and enough room in the queue, or let the task make its own group with its context.
func (g *FuncGroup[A, R]) Go(a A) error {
	in := &g.queue.in
	if g.limit != nil || g.apart || g.queue.lane != nil || in.used.Load() == 0 && g.span.pool.idle() {
		return g.goSlowly(a)
	}
	in.mu.Lock()
	if in.room <= 0 {
		in.mu.Unlock()
		return g.goSlowly(a)
	}
	c := g.cell()
	if c == nil {
		in.mu.Unlock()
		return g.refusal()
	}
	c.arg = a
	g.queue.push(g.f.target.priority, c)
	in.mu.Unlock()
	g.span.pool.call()
	return nil
}

// idle reports whether the next task can go directly to a worker.
func (p *Pool) idle() bool {
	h := p.counts()
	return h.searching() == 0 && (h.parked() > 0 || h.size() < p.most()) && !p.work()
}

// cell returns the next cell, or nil if the group accepts no more tasks. queue.in.mu is
// held.
func (g *FuncGroup[A, R]) cell() *cell[A, R] {
	if g.over || g.stopped.Load() {
		return nil
	}
	i := g.n % slabSize
	if i == 0 {
		var b *slab[A, R]
		if g.span.pool.state.State() < Closing { // see recycle
			b, _ = g.spare.Get().(*slab[A, R])
		}
		if b == nil {
			b = newSlab[A, R](g.f.target.kind)
		}
		b.group = g
		g.slabs = append(g.slabs, b)
	}
	g.n++
	return &g.slabs[len(g.slabs)-1].cells[i]
}

func (g *FuncGroup[A, R]) goSlowly(a A) error {
	if err := g.enter(); err != nil {
		return err
	}
	var c *cell[A, R]
	g.queue.in.mu.Lock()
	taken := !g.over && !g.stopped.Load()
	switch {
	case taken && g.apart:
		g.n++
	case taken:
		c = g.cell()
		taken = c != nil
	}
	g.queue.in.mu.Unlock()
	if !taken {
		g.leave(1)
		return g.refusal()
	}
	if g.apart {
		return g.goApart(a)
	}
	c.arg = a
	at := g.f.target
	if at.try(g.queue, c) {
		g.sweepIfStopped()
		return nil
	}
	g.yields()
	if err := at.insist(g.span.Context, g.queue, c); err != nil {
		atomic.StoreUint32(&c.state, cellRefused)
		g.ended(1)
		return err
	}
	g.sweepIfStopped()
	return nil
}

// enter waits until the limit allows one more task.
func (g *FuncGroup[A, R]) enter() error {
	if g.limit == nil {
		return nil
	}
	select {
	case g.limit <- struct{}{}:
		return nil
	default:
	}
	g.yields()
	select {
	case g.limit <- struct{}{}:
		return nil
	case <-g.span.Done():
		return g.refusal()
	}
}

// leave returns n places to the limit.
func (g *FuncGroup[A, R]) leave(n uint64) {
	if g.limit != nil {
		for range n {
			<-g.limit
		}
	}
}

// yields declares that the task which made the group waits for it: the pool may run one
// worker more until that task ends.
func (g *FuncGroup[A, R]) yields() {
	if g.host != nil {
		g.host.waits()
		g.span.pool.call()
	}
}

// refusal returns the reason why the group accepts no more tasks.
func (g *FuncGroup[A, R]) refusal() error {
	g.queue.in.mu.Lock()
	defer g.queue.in.mu.Unlock()
	if g.over {
		return ErrGroupOver
	}
	return fmt.Errorf("the group accepts no more tasks: %w", context.Cause(g.span.Context))
}

// ended counts n tasks that have ended, and wakes Wait if they were the last ones. Their
// outcomes were written before.
func (g *FuncGroup[A, R]) ended(n uint64) (woke bool) {
	g.leave(n)
	done := g.done.Add(n)
	if target := g.target.Load(); target != 0 && (done >= target-1 || g.lost.Load()) {
		select {
		case g.bell <- struct{}{}:
		default:
		}
		return true
	}
	return false
}

// reportEnded reports the tasks of the group that the worker has ended but not reported yet.
func (g *FuncGroup[A, R]) reportEnded(w *worker) {
	if n := w.unreported; n > 0 {
		w.unreported = 0
		w.flush()
		if g.ended(n) {
			w.spun = true
		}
	}
}
