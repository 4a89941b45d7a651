package pool

import (
	"context"
	"sync/atomic"
)

// Wait waits until all tasks of the group have ended, including tasks added in the
// meantime. It ends the group and its context, and returns the results in the order of
// submission. A panic or Goexit of a task is an error of that task.
//
// With [FirstError], the error is an [IndexError] of the task that failed first, or the
// reason why ctx ended. With [AllErrors], it is a [Failures] of all tasks that failed, were
// canceled or did not start. The result of a task with an error is zero; see
// [FuncGroup.Errors]. Further calls of Wait return the same. Wait also waits for bodies
// that ignore the end of their context, unless their submitter has a timeout.
func (g *FuncGroup[A, R]) Wait() ([]R, error) {
	g.waited.Lock()
	defer g.waited.Unlock()
	if !g.ready {
		g.await()
		g.collect()
		g.ready = true
	}
	return g.results, g.err
}

// Errors waits like Wait, and returns the error of each accepted task, nil for those that
// succeeded. It returns nil if no task failed.
func (g *FuncGroup[A, R]) Errors() []error {
	_, _ = g.Wait() // its error is made of these
	g.waited.Lock()
	defer g.waited.Unlock()
	return g.errs
}

// await waits until all tasks have ended, and closes the group.
func (g *FuncGroup[A, R]) await() {
	if g.host == nil {
		defer g.span.pool.makeRoom()()
	}
	for !g.close() {
		g.yields()
		<-g.bell
	}
	g.mu.Lock()
	unhook := g.unhook
	g.mu.Unlock()
	if unhook != nil && !unhook() {
		<-g.span.Done()
		g.stop(context.Cause(g.span.Context), nil) // the watch is running or has run: see recycle
	}
	g.span.end()
}

// close closes the group if all its tasks have ended. Otherwise the bell will ring when the
// tasks submitted so far have ended.
func (g *FuncGroup[A, R]) close() bool {
	in := &g.queue.in
	in.mu.Lock()
	n := g.n
	g.target.Store(n + 1) // before reading done, so that the worker of the last task sees the target
	if g.done.Load() == n || g.lost.Load() && g.scan() {
		g.over = true
		in.mu.Unlock()
		return true
	}
	in.mu.Unlock()
	return false
}

// scan checks each task. It is needed when a task was answered while its body keeps running,
// because the worker may not have reported other tasks that have ended. queue.in.mu is
// held.
func (g *FuncGroup[A, R]) scan() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, b := range g.slabs {
		for k := range b.used(g.n, i) {
			c := &b.cells[k]
			switch atomic.LoadUint32(&c.state) {
			case cellOpen:
				return false
			case cellFailed:
				if g.fails[c] == nil {
					return false
				}
			}
		}
	}
	return len(g.slabs) > 0
}

// used returns how many cells of slab i a group of n tasks has used.
func (b *slab[A, R]) used(n uint64, i int) uint64 {
	return min(n-uint64(i)*slabSize, slabSize)
}

// collect reads the outcomes of a closed group.
func (g *FuncGroup[A, R]) collect() {
	g.queue.in.mu.Lock()
	slabs, n := g.slabs, g.n
	g.slabs = nil
	g.queue.in.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.results = make([]R, 0, n)
	first := -1
	for i, b := range slabs {
		for k := range b.used(n, i) {
			c := &b.cells[k]
			switch atomic.LoadUint32(&c.state) {
			case cellDone:
				g.add(c.value, nil)
			case cellFailed:
				if any(c) == g.first {
					first = len(g.results)
				}
				var none R
				g.add(none, g.fails[c])
			}
		}
		g.recycle(b, b.used(n, i))
	}
	for _, j := range g.jobs {
		if value, err, accepted := j.outcome(); accepted {
			if any(j) == g.first {
				first = len(g.results)
			}
			g.add(value, err)
		}
	}
	g.jobs, g.room, g.fails = nil, nil, nil
	g.err = g.verdict(first)
}

// recycle clears a slab for reuse, unless a cell may still be referenced: by a body that
// goes on, by stop, or at the end of Close's grace, when even idle workers are asked for
// their last item. Close changes the state before it takes the locks of the pool's queue,
// so recycle sees it here. Lanes have other locks, so their slabs are not reused.
func (g *FuncGroup[A, R]) recycle(b *slab[A, R], used uint64) {
	if g.stopped.Load() || g.lost.Load() || g.queue.lane != nil {
		return
	}
	g.queue.in.mu.Lock()
	if g.span.pool.state.State() >= Closing {
		g.queue.in.mu.Unlock()
		return
	}
	for i := range b.cells[:used] {
		b.cells[i].clear()
	}
	b.group = nil
	g.queue.in.mu.Unlock()
	g.spare.Put(b)
}

// add appends the outcome of the next task.
func (g *FuncGroup[A, R]) add(value R, err error) {
	if err != nil && g.errs == nil {
		g.errs = make([]error, len(g.results), cap(g.results))
	}
	g.results = append(g.results, value)
	if g.errs != nil {
		g.errs = append(g.errs, err)
	}
}

// verdict returns the error of Wait. first is the index of the task that failed first; it
// is negative if the group was stopped by something else or not at all. mu is held.
func (g *FuncGroup[A, R]) verdict(first int) error {
	if g.errs == nil {
		return nil
	}
	if g.rule == FirstError {
		if first >= 0 {
			return &IndexError{first, g.errs[first]}
		}
		if g.cause != nil {
			return notStarted(g.f.target.kind, g.cause)
		}
	}
	return Failures(g.errs)
}
