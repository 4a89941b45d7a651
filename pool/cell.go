package pool

import (
	"context"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// slabSize is the number of cells that are made at once.
const slabSize = 64

// slab has the cells of tasks that follow each other in a group.
type slab[A, R any] struct {
	kind  *kind            // as long as the slab lives: who has run a cell may ask later
	group *FuncGroup[A, R] // whose tasks these are now
	cells [slabSize]cell[A, R]
}

func newSlab[A, R any](k *kind) *slab[A, R] {
	b := &slab[A, R]{kind: k}
	for i := range b.cells {
		b.cells[i].slab = b
	}
	return b
}

// cell is a task of a group. It lies in the queue itself. Who takes it out of the
// queue owns it; after its start the body's end and the end of Close's grace
// compete for its state. It is small, as two processors write it.
type cell[A, R any] struct {
	state uint32 // by compare-and-swap once it was accepted
	slab  *slab[A, R]
	arg   A
	value R // written before the state is cellDone
}

// clear makes the cell as new, so that nobody sees the values of others. Its slab
// stays: who has run it may ask for that.
func (c *cell[A, R]) clear() {
	var arg A
	var value R
	c.state, c.arg, c.value = cellOpen, arg, value
}

// The states of a cell: from open to one of the others, which is then counted.
const (
	cellOpen = iota
	cellDone
	cellFailed  // the group has the error, or will have it at once
	cellRefused // it was not accepted
)

// run runs the task, and those of the same group that the worker has in hand
// behind it, so that they are counted together.
func (c *cell[A, R]) run(w *worker) {
	g := c.slab.group
	for {
		if g.stopped.Load() || g.ends && g.span.Err() != nil {
			g.stop(context.Cause(g.span.Context), nil) // it may be about to be called
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
			g.say(w)
			first, _ := w.held()
			w.step(first - 1)
			return
		}
	}
	g.say(w)
}

func (c *cell[A, R]) execute(g *FuncGroup[A, R], w *worker) {
	ctx := g.span.on(w)
	value, err := g.f.fn(ctx, c.arg)
	if err != nil {
		c.finish(w, judge(ctx, c.slab.kind, err))
		return
	}
	c.value = value // if the task was answered, nobody looks there any more
	if !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellDone) {
		w.late()
		return
	}
	w.count(c.slab.kind)
	w.unsaid++
}

// finish ends a task that ran and failed.
func (c *cell[A, R]) finish(w *worker, err error) {
	if !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellFailed) {
		w.late()
		return
	}
	w.home.outcome(c.slab.kind, err)
	c.slab.group.failed(c, err)
	w.unsaid++
}

// end ends a task that never started.
func (c *cell[A, R]) end(err error) {
	g := c.slab.group
	c.slab.kind.neverStarted()
	atomic.StoreUint32(&c.state, cellFailed)
	g.failed(c, err)
	g.ended(1)
}

// follow starts the worker's next item without leaving the group, so that the
// ends of many tasks are published by one step. It returns nil when there is
// none, and foreign when the item is of another group and has to be run apart.
// Nothing is left unsaid while such an item runs; that tasks of the same group are
// said late harms nobody, as Wait waits for them anyway.
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
	g.say(w)
}

func (c *cell[A, R]) fail(err error) { c.end(err) }
func (c *cell[A, R]) stale() bool    { return false }
func (c *cell[A, R]) named() *kind   { return c.slab.kind }

// forsake answers the task while its body runs on.
func (c *cell[A, R]) forsake() bool {
	g := c.slab.group
	if g == nil || !atomic.CompareAndSwapUint32(&c.state, cellOpen, cellFailed) {
		return false // it has ended, and its worker too is about to
	}
	g.lost.Store(true)
	g.failed(c, taskError(c.slab.kind.name, bullpen.Canceled, errForsaken))
	g.ended(1)
	return true
}
