package pool

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// delayed holds the delayed tasks of a pool, in a heap with one timer for the first. Each
// task occupies a place of its queue from its acceptance, so that the queue's bound holds
// and the task can be queued when it is due. Lock order: admission, delayed, the locks of a
// queue.
type delayed struct {
	n atomic.Int64 // number of tasks, until they are queued; written with mu held

	mu    sync.Mutex
	heap  laterHeap // by due time. mu guards the fields below
	tasks map[*head]*later
	timer *time.Timer // runs Pool.arrivals; nil before the first task
	next  int64       // when the timer fires, 0 for never
	count uint64      // all tasks so far: tasks due at the same time keep their order
}

// later is a delayed task.
type later struct {
	item     item
	head     *head  // nil for items without one
	gen      uint64 // of head
	queue    *queue
	priority Priority
	due      int64
	number   uint64
	index    int // in the heap
}

// laterHeap implements heap.Interface.
type laterHeap []*later

func (h laterHeap) Len() int { return len(h) }
func (h laterHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].number < h[j].number
}
func (h laterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *laterHeap) Push(x any) {
	l := x.(*later) //nolint:forcetypeassert // only add pushes
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *laterHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}

// top returns the head of an item that has one.
func (h *head) top() *head        { return h }
func (c *taskContext) top() *head { return c.head }

// putLater is put for a task with a delay: it takes a place of the queue now, and the task
// is queued when it is due.
func (at *target) putLater(ctx context.Context, q *queue, it item) error {
	q.in.mu.Lock()
	got := q.in.room > 0
	if got {
		q.in.room--
	}
	q.in.mu.Unlock()
	var err error
	if got {
		err = at.pool.delay(at, q, it)
	} else {
		err = q.admission.passLater(ctx, at, q, it)
	}
	if err != nil {
		return err
	}
	if c, ok := it.(*taskContext); ok && c.parent.Done() != nil {
		c.Done() // so that the end of the caller's context takes effect immediately
	}
	return nil
}

// passLater is pass for a task with a delay. With CallerRuns it refuses the task, because
// the task must not run now.
func (g *admission) passLater(ctx context.Context, at *target, q *queue, it item) error {
	g.mu.Lock()
	if err := g.refusal; err != nil {
		g.mu.Unlock()
		g.pool.counters.refused.Add(1)
		return err
	}
	if g.waiting.n == 0 && g.fetch(q, func() { q.in.room-- }) {
		g.mu.Unlock()
		return g.pool.delay(at, q, it)
	}
	switch g.overflow {
	case Block:
		return g.block(ctx, at, q, it)
	case DropOldest:
		q.out.mu.Lock()
		old, ok := q.oldest()
		q.out.mu.Unlock()
		if ok {
			g.mu.Unlock()
			err := g.pool.delay(at, q, it)
			g.pool.failed(old, fmt.Errorf("%w: a newer task took its place", bullpen.ErrOverloaded))
			return err
		}
	case Reject, CallerRuns:
	}
	g.mu.Unlock()
	g.pool.counters.refused.Add(1)
	g.pool.overload(at.kind, "refused")
	return fmt.Errorf("%w: %d tasks already wait, which is the maximum", bullpen.ErrOverloaded, g.bound)
}

// delay accepts a task that has a place of queue q, unless the pool is shutting down.
func (p *Pool) delay(at *target, q *queue, it item) error {
	d := &p.delayed
	l := &later{item: it, queue: q, priority: at.priority}
	if t, ok := it.(interface{ top() *head }); ok {
		l.head = t.top()
		l.gen = genOf(l.head.word.Load())
	}
	now := p.now()
	if l.due = now + int64(at.delay); l.due < now {
		l.due = math.MaxInt64
	}
	d.mu.Lock()
	d.n.Add(1) // before reading the state, so that the shutdown will find the task
	if p.ending() {
		d.n.Add(-1)
		d.mu.Unlock()
		q.admission.free(1)
		p.counters.refused.Add(1)
		p.lessWaits()
		return p.closedError()
	}
	defer d.mu.Unlock()
	q.admission.delayed.Add(1)
	l.number = d.count
	d.count++
	heap.Push(&d.heap, l)
	if l.head != nil {
		if d.tasks == nil {
			d.tasks = map[*head]*later{}
		}
		d.tasks[l.head] = l
	}
	p.setTimer(now)
	return nil
}

// setTimer sets the timer to the first due time. delayed.mu is held.
func (p *Pool) setTimer(now int64) {
	d := &p.delayed
	next := int64(0)
	if len(d.heap) > 0 {
		next = d.heap[0].due
	}
	if next == d.next {
		return
	}
	d.next = next
	switch {
	case next == 0:
		d.timer.Stop()
	case d.timer == nil:
		d.timer = time.AfterFunc(time.Duration(next-now), p.arrivals) // ends at once; the tasks keep the pool
	default:
		d.timer.Reset(time.Duration(next - now))
	}
}

// remove takes a task out of the heap. mu is held.
func (d *delayed) remove(l *later) {
	heap.Remove(&d.heap, l.index)
	l.queue.admission.delayed.Add(-1)
	if l.head != nil {
		delete(d.tasks, l.head)
	}
}

// arrivals queues the tasks that are due.
func (p *Pool) arrivals() {
	d := &p.delayed
	var due, failed []*later
	var reason error
	d.mu.Lock()
	now := p.now()
	d.next = 0
	for len(d.heap) > 0 && d.heap[0].due <= now {
		l := d.heap[0]
		d.remove(l)
		if err := l.queue.arrive(l.priority, l.item); err != nil {
			failed, reason = append(failed, l), err
			continue
		}
		d.n.Add(-1)
		due = append(due, l)
	}
	p.setTimer(now)
	d.mu.Unlock()
	for _, l := range due {
		l.queue.called()
	}
	for _, l := range failed {
		p.failed(l.item, reason)
		d.n.Add(-1)
	}
	p.lessWaits()
}

// lessWaits is called when a task has ended without a worker: there is more room, and it
// may have been the last task of a pool that is shutting down.
func (p *Pool) lessWaits() {
	p.madeRoom()
	if p.ending() {
		p.hold(0)
	}
}

// arrive is push for an item that already has a place. If the waiting items have been
// failed in the meantime, it returns the error they were failed with.
func (q *queue) arrive(pr Priority, it item) error {
	q.out.mu.Lock()
	defer q.out.mu.Unlock()
	if q.out.emptied != nil {
		return q.out.emptied
	}
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	q.in.room++
	q.push(pr, it)
	return nil
}

// undelay releases a delayed task that has ended. It returns false if the task was not
// delayed or is already queued.
func (p *Pool) undelay(h *head, gen uint64) bool {
	d := &p.delayed
	if d.n.Load() == 0 {
		return false
	}
	d.mu.Lock()
	l := d.tasks[h]
	if l == nil || l.gen != gen {
		d.mu.Unlock()
		return false
	}
	d.remove(l)
	d.n.Add(-1)
	p.setTimer(p.now())
	d.mu.Unlock()
	l.item.fail(nil)
	l.queue.admission.free(1)
	if l.queue.admission.blocked.Load() > 0 {
		l.queue.admission.admit(1)
	}
	p.lessWaits()
	return true
}

// dropDelayed removes and returns all delayed tasks; no more will come. It also stops the
// timers of lanes, which are no longer needed.
func (p *Pool) dropDelayed() []item {
	p.mu.Lock()
	lanes := p.lanes
	p.mu.Unlock()
	for _, l := range lanes {
		l.disarm()
	}
	d := &p.delayed
	d.mu.Lock()
	defer d.mu.Unlock()
	items := make([]item, 0, len(d.heap))
	for len(d.heap) > 0 {
		l := d.heap[0]
		d.remove(l)
		d.n.Add(-1)
		items = append(items, l.item)
	}
	p.setTimer(0)
	return items
}
