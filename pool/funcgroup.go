package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrGroupOver is what Go of a group returns after its Wait has ended: make a new
// group for more tasks.
var ErrGroupOver = errors.New("the group has ended: make a new one for more tasks")

// IndexError says which of several tasks failed.
type IndexError struct {
	// Index counts the accepted tasks in the order of submission, from 0.
	Index int
	// Err is how the task ended.
	Err error
}

// Error names the task.
func (e *IndexError) Error() string { return fmt.Sprintf("task %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *IndexError) Unwrap() error { return e.Err }

// FuncGroup is a group of tasks of one typed function, whose results come in the
// order of submission. For a task nothing is allocated, unless its place has a
// timeout or a delay (about two hundred bytes then). All methods are safe for
// concurrent use.
type FuncGroup[A, R any] struct {
	span  span
	f     *Func[A, R]
	rule  ErrorRule
	limit chan struct{} // has a token for each task, where a limit is set
	ends  bool          // the caller's context may end
	apart bool          // tasks have contexts of their own, and are jobs
	spare *sync.Pool    // of *slab[A, R]
	host  *worker       // whose task made the group, nil for others
	queue *queue        // where all its tasks wait

	slabs []*slab[A, R] // queue.in.mu guards these three
	n     uint64        // tasks that were brought, those included that were refused
	over  bool          // it takes no more

	done    atomic.Uint64 // tasks that have ended, but those that a worker has not said yet
	target  atomic.Uint64 // when to ring: that many plus one have ended
	stopped atomic.Bool   // nothing starts any more
	lost    atomic.Bool   // bodies run on whose tasks were answered
	bell    chan struct{} // room for one; for Wait

	mu     sync.Mutex
	jobs   []*groupJob[A, R] // mu guards what follows
	room   []groupJob[A, R]  // for the next jobs
	fails  map[any]error     // by *cell or *groupJob
	cause  error             // why the group was stopped
	first  any               // the task that failed first
	unhook func() bool       // ends the watch over the caller's context

	waited  sync.Mutex // held by Wait; guards what follows
	ready   bool
	results []R
	errs    []error
	err     error
}

// Group makes a group. Its tasks get a context that ends with ctx, at the first
// failure where the rule is [FirstError], and when Wait returns. It costs less
// than a microsecond and some hundred bytes.
func (f *Func[A, R]) Group(ctx context.Context, c GroupConfig) *FuncGroup[A, R] {
	return f.group(ctx, c, &f.slabs)
}

func (f *Func[A, R]) group(ctx context.Context, c GroupConfig, spare *sync.Pool) *FuncGroup[A, R] {
	g := &FuncGroup[A, R]{f: f, rule: c.Errors, spare: spare, bell: make(chan struct{}, 1)}
	g.apart = f.place.timeout > 0 || f.place.delay > 0
	g.queue = f.place.queueOf()
	if c.Limit > 0 {
		g.limit = make(chan struct{}, c.Limit)
	}
	g.span.init(ctx, f.place.pool)
	g.host = f.place.pool.workerOf(ctx)
	if ctx.Done() != nil {
		g.ends = true
		g.watchCaller(ctx)
	}
	return g
}

// Go hands over a task. It waits while the group has as many tasks as its limit
// allows, and then as the rule of the queue says. An error says why the task was
// not accepted: the group was stopped, by its context or by a failure; it has
// ended ([ErrGroupOver]); the queue is full or closed.
//
// A task that adds tasks to its own group must not have to wait for that: give
// such a group no limit and room in the queue, or let the task make a group of its
// own with its context.
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
	g.queue.push(g.f.place.priority, c)
	in.mu.Unlock()
	g.span.pool.call()
	return nil
}

// idle reports whether the next task may go straight to a worker.
func (p *Pool) idle() bool {
	h := p.handsNow()
	return h.searching() == 0 && (h.parked() > 0 || h.size() < p.most()) && !p.work()
}

// cell gives the next cell; nil when the group takes no more tasks. queue.in.mu
// is held.
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
			b = newSlab[A, R](g.f.place.kind)
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
	at := g.f.place
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

// enter waits for the limit.
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

// leave makes room in the limit.
func (g *FuncGroup[A, R]) leave(n uint64) {
	if g.limit != nil {
		for range n {
			<-g.limit
		}
	}
}

// yields says that the task which made the group waits for it: there may be one
// worker more until it ends.
func (g *FuncGroup[A, R]) yields() {
	if g.host != nil {
		g.host.waits()
		g.span.pool.call()
	}
}

// refusal says why the group takes no more tasks.
func (g *FuncGroup[A, R]) refusal() error {
	g.queue.in.mu.Lock()
	defer g.queue.in.mu.Unlock()
	if g.over {
		return ErrGroupOver
	}
	return fmt.Errorf("the group takes no more tasks: %w", context.Cause(g.span.Context))
}

// ended counts n tasks that have ended, and tells Wait when they were the last.
// Their outcomes were written before.
func (g *FuncGroup[A, R]) ended(n uint64) (told bool) {
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

// say counts the tasks of the group that the worker has ended and not said so.
func (g *FuncGroup[A, R]) say(w *worker) {
	if n := w.unsaid; n > 0 {
		w.unsaid = 0
		w.flush()
		if g.ended(n) {
			w.spun = true
		}
	}
}
