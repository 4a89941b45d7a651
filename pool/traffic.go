package pool

import (
	"context"
	"time"
)

// This file moves tasks into and out of lanes. A lane is in the list of ready lanes if and
// only if it has a task that may start, so a worker sees with one load whether there is
// any. A lane may become ready by a push, the return of a body, a higher limit, or the
// timer of the rate. Each of these makes its change first and then calls list; the lane's
// lock orders them, so no change is missed. Lock order: admission, lane, the locks of its queue,
// the locks of the pool's queue.

// putElsewhere is put for lanes and for delayed tasks.
func (at *target) putElsewhere(ctx context.Context, h *head, it item) error {
	l := at.lane
	q := at.pool.shard()
	if l != nil {
		q = &l.queue
		if w := at.pool.workerOf(ctx); w != nil && w.lane.Load() == l {
			l.nests(w)
		}
	}
	if h != nil {
		h.queue = q
	}
	var err error
	if at.delay > 0 {
		err = at.putLater(ctx, q, it)
	} else {
		err = at.putInLane(ctx, q, it)
	}
	if err != nil && l != nil {
		l.refused.Add(1)
	}
	return err
}

func (at *target) putInLane(ctx context.Context, q *queue, it item) error {
	q.in.mu.Lock()
	if q.in.room <= 0 {
		q.in.mu.Unlock()
		return q.admission.pass(ctx, at, q, it)
	}
	q.in.sample = 0 // all waits in a lane are measured
	q.push(at.priority, it)
	q.in.mu.Unlock()
	q.lane.list()
	return nil
}

// list adds the lane to the ready lanes if it is ready, and calls a worker.
func (l *Lane) list() {
	l.mu.Lock()
	ready := l.stand()
	l.mu.Unlock()
	if ready {
		l.pool.call()
	}
}

// stand adds the lane to the ready lanes if it may start a task and is not listed. If only
// the rate prevents that, it sets the timer. mu is held.
func (l *Lane) stand() bool {
	if l.listed || !l.queue.work() || !l.hasPlace() {
		return false
	}
	if l.meter.limited() {
		if wait := l.meter.wait(l.pool.now()); wait > 0 {
			l.arm(wait)
			return false
		}
	}
	l.listed = true
	l.pool.ready.push(l)
	return true
}

// hasPlace reports whether the limit allows one more task. mu is held.
func (l *Lane) hasPlace() bool { return l.limit == 0 || l.running < l.limit+l.nesting }

// arm sets the timer, which calls list after wait. mu is held.
func (l *Lane) arm(wait time.Duration) {
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.due) // ends at once; a task that waits for it keeps the pool alive
		return
	}
	l.timer.Reset(wait)
}

// disarm stops the timer.
func (l *Lane) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.armed && l.timer.Stop() {
		l.armed = false
	}
}

// due is the timer's function.
func (l *Lane) due() {
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
	l.list()
}

// take starts the next task of the lane, which is no longer listed, in worker w. It lists
// the lane again, at the end, if the lane may start more.
func (l *Lane) take(w *worker) bool {
	p := l.pool
	l.mu.Lock()
	taken := l.hasPlace() && l.queue.takeOne(w)
	if taken {
		l.running++
		l.started.Add(1)
		w.lane.Store(l)
		if l.meter.limited() {
			l.meter.start(p.now())
		}
	}
	l.listed = false
	ready := l.stand()
	l.mu.Unlock()
	if ready {
		p.call() // a caller that queued an item meanwhile has relied on this
	}
	if taken {
		l.admission.free(1)
		if l.admission.blocked.Load() > 0 {
			l.admission.admit(1)
		}
		p.madeRoom() // the task no longer waits, and other workers may be free
	}
	return taken
}

// takeOne is take for one item of a lane. It also locks the pool's own queue, because
// freeze uses that lock to keep workers from taking items.
func (q *queue) takeOne(w *worker) bool {
	q.out.mu.Lock()
	defer q.out.mu.Unlock()
	in, out := q.in.used.Load(), q.out.used.Load()
	if in != 0 && (out == 0 || in|out != 1<<Normal) {
		q.takeOver()
	}
	if q.out.used.Load() == 0 {
		return false
	}
	own := q.pool.shards[0]
	own.out.mu.Lock()
	defer own.out.mu.Unlock()
	if q.fill(w, 1) == 0 {
		return false
	}
	w.own.Store(pack(1, 1))
	return true
}

// release frees the place of a body that has returned. The worker will look for work next.
// So if the lane is ready, the worker counts as searching from now on, and no other one
// needs to be woken.
func (l *Lane) release(w *worker) {
	l.mu.Lock()
	l.running--
	w.lane.Store(nil)
	if w.laneNests {
		w.laneNests = false
		l.nesting--
	}
	ready := l.stand()
	l.mu.Unlock()
	switch {
	case !ready:
	case w.flags.Load()&(flagLost|flagForsaken) != 0:
		l.pool.call() // this worker leaves
	case !w.searching:
		w.searching = true
		l.pool.workerCounts.Add(oneSearching)
	}
}

// nests lets the lane run one task more until the worker's task ends.
func (l *Lane) nests(w *worker) {
	l.mu.Lock()
	if w.lane.Load() == l && !w.laneNests {
		w.laneNests = true
		l.nesting++
	}
	ready := l.stand()
	l.mu.Unlock()
	if ready {
		l.pool.call()
	}
}

// waits declares that the worker's task waits for another one. Until it ends, the pool may
// run one worker more, and its lane one task more.
func (w *worker) waits() {
	w.nests()
	if l := w.lane.Load(); l != nil {
		l.nests(w)
	}
}
