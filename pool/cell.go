package pool

import (
	"context"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// slabSize is the number of cells that are made at once.
const slabSize = 64

// slab holds the cells of consecutive tasks of a group.
type slab[A, R any] struct {
	kind  *kind            // constant, because the worker of a cell may read it later
	group *FuncGroup[A, R] // the group that uses the slab now
	cells [slabSize]cell[A, R]
}

func newSlab[A, R any](k *kind) *slab[A, R] {
	b := &slab[A, R]{kind: k}
	for i := range b.cells {
		b.cells[i].slab = b
	}
	return b
}

// cell is a task of a group. The cell itself is queued. Whoever takes it from the queue
// owns it. After its start, the end of the body and the end of Close's grace compete for
// its state. It is small, because two processors write it.
type cell[A, R any] struct {
	state uint32 // changed by compare-and-swap after acceptance
	slab  *slab[A, R]
	arg   A
	value R // written before the state is cellDone
}

// clear resets the cell, so that it exposes no values of earlier tasks. It keeps the slab,
// because the worker of the earlier task may still read it.
func (c *cell[A, R]) clear() {
	var arg A
	var value R
	c.state, c.arg, c.value = cellOpen, arg, value
}

// The states of a cell. It moves from open to one of the others, and is then counted as
// ended.
const (
	cellOpen = iota
	cellDone
	cellFailed  // the group has the error, or is about to get it
	cellRefused // the cell was not accepted
)

// run runs the task, and then the tasks of the same group that the worker has taken in
// advance, so that they are counted together.
func (c *cell[A, R]) run(w *worker) {
	g := c.slab.group
	for {
		if g.stopped.Load() || g.ends && g.span.Err() != nil {
			g.stop(context.Cause(g.span.Context), nil) // the watch of the context may be about to call it
			c.end(g.stopError())
		} else {
			c.execute(g, w)
		}
		next, foreign := c.follow(g, w)
		if next == nil {
			break
		}
		c = next
		if foreign {
			g.reportEnded(w)
			first, _ := w.held()
			w.step(first - 1)
			return
		}
	}
	g.reportEnded(w)
}

func (c *cell[A, R]) execute(g *FuncGroup[A, R], w *worker) {
	ctx := g.span.on(w)
	value, err := g.f.fn(ctx, c.arg)
	if err != nil {
		c.finish(w, judge(ctx, c.slab.kind, err))
		return
	}
	c.value = value // if the task was answered, the value has no reader
	if !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellDone) {
		w.late()
		return
	}
	w.count(c.slab.kind)
	w.unreported++
}

// finish ends a task that failed.
func (c *cell[A, R]) finish(w *worker, err error) {
	if !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellFailed) {
		w.late()
		return
	}
	w.home.outcome(c.slab.kind, err)
	c.slab.group.failed(c, err)
	w.unreported++
}

// end ends a task that never started.
func (c *cell[A, R]) end(err error) {
	g := c.slab.group
	c.slab.kind.neverStarted()
	atomic.StoreUint32(&c.state, cellFailed)
	g.failed(c, err)
	g.ended(1)
}

// follow starts the worker's next item without leaving the group, so that the ends of many
// tasks are published in one step. It returns nil if there is none; foreign means that the
// item belongs to another group and must be run separately. The ends are reported before
// such an item runs. Within the group they may be reported late, because Wait waits for all
// its tasks anyway.
func (c *cell[A, R]) follow(g *FuncGroup[A, R], w *worker) (next *cell[A, R], foreign bool) {
	if g.limit != nil || w.measuring || w.guest {
		return nil, false
	}
	for {
		first, end := w.held()
		if first == end || w.flags.Load() != 0 || w.stamps[first-1] != 0 {
			return nil, false
		}
		if !w.own.CompareAndSwap(pack(first, end), pack(first+1, end)) {
			continue
		}
		next, ok := w.items[first].(*cell[A, R])
		if !ok || next.slab.group != g || w.stamps[first] != 0 {
			return c, true
		}
		return next, false
	}
}

func (c *cell[A, R]) crash(w *worker, t thrown) {
	g := c.slab.group
	c.finish(w, t.err(c.slab.kind.name))
	g.reportEnded(w)
}

func (c *cell[A, R]) fail(err error) { c.end(err) }
func (c *cell[A, R]) stale() bool    { return false }
func (c *cell[A, R]) named() *kind   { return c.slab.kind }

// forsake answers the task while its body keeps running.
func (c *cell[A, R]) forsake() bool {
	g := c.slab.group
	if g == nil || !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellFailed) {
		return false // it has ended, or its worker is about to leave
	}
	g.lost.Store(true)
	g.failed(c, taskError(c.slab.kind.name, bullpen.Canceled, errForsaken))
	g.ended(1)
	return true
}
