package pool

import (
	"context"
	"time"
)

// How tasks get in and out of lanes. A lane stands in the row of ready lanes
// while it has a task that may start, and only then, so that a worker finds by one
// look whether there is any. Who changes something by which it may become ready
// changes it first and then calls list: a push, the return of a body, a higher
// limit, the timer of the rate. The lock of the lane puts them in order, so none
// can miss the other's change. Lock order: gate, lane, then the locks of its
// queue, then those of the pool's.

// putElsewhere is put for lanes and for delayed tasks.
func (at *placement) putElsewhere(ctx context.Context, h *head, it item) error {
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

func (at *placement) putInLane(ctx context.Context, q *queue, it item) error {
	q.in.mu.Lock()
	if q.in.room <= 0 {
		q.in.mu.Unlock()
		return q.gate.pass(ctx, at, q, it)
	}
	q.in.sample = 0 // each wait in a lane is measured
	q.push(at.priority, it)
	q.in.mu.Unlock()
	q.lane.list()
	return nil
}

// list lets the lane stand among the ready ones if it is ready, and sees to it
// that a worker comes.
func (l *Lane) list() {
	l.mu.Lock()
	ready := l.stand()
	l.mu.Unlock()
	if ready {
		l.pool.call()
	}
}

// stand puts the lane into the row of ready lanes if it may start a task and does
// not stand there. If the rate is what it waits for, the timer is set. mu is held.
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

// hasPlace reports whether the limit allows one more body. mu is held.
func (l *Lane) hasPlace() bool { return l.limit == 0 || l.running < l.limit+l.nesting }

// arm sets the timer, which lists the lane after wait. mu is held.
func (l *Lane) arm(wait time.Duration) {
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.due) // a goroutine that ends at once; a task that waits for it keeps the pool
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

// due is what the timer runs.
func (l *Lane) due() {
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
	l.list()
}

// take gives the worker the next task of the lane, which was taken off the row,
// and starts it. The lane goes to the end of the row if more may start.
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
		p.call() // who brought something meanwhile has relied on this
	}
	if taken {
		l.gate.free(1)
		if l.gate.blocked.Load() > 0 {
			l.gate.admit(1)
		}
		p.madeRoom() // it waits no more, and other workers may be free
	}
	return taken
}

// takeOne is take for one item. That of the pool's own queue is locked too, by
// which freeze keeps workers from taking items.
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

// release gives back the place of a body that has returned. The worker will look
// for work next; so if the lane is ready it counts as searching from here on, and
// nobody has to be woken.
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
		l.pool.hands.Add(oneSearching)
	}
}

// nests lets the lane run one more body until the one of the worker returns.
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

// waits says that the worker's task waits for another one: there may be one
// worker more, and in the lane of the task one body more, until it ends.
func (w *worker) waits() {
	w.nests()
	if l := w.lane.Load(); l != nil {
		l.nests(w)
	}
}
