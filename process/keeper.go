package process

import (
	"errors"
	"math"
	"os"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// never is a time that is never reached.
const never = math.MaxInt64

// keep is the pool's keeper goroutine: it does everything that is due at a time rather
// than on an answer. New starts it; it ends with the pool and closes over.
func (p *Pool) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := p.now()
		p.mu.Lock()
		select {
		case <-p.poke: // this pass handles all requests so far
		default:
		}
		p.wakeAt = never
		if p.crowded {
			// One pass per millisecond handles all tasks that wait behind others, so
			// that no goroutine has to poke. A lone caller needs none, and the cost
			// would slow it down.
			p.crowded = false
			p.wakeAt = now + int64(growWait)
		}
		p.tending = true
		claimed, ended := p.tend(now)
		p.tending = false
		wait := p.wakeAt - now
		p.mu.Unlock()
		for _, w := range claimed {
			w.driver.send()
		}
		if ended {
			p.finish()
			return
		}
		// A wait of zero would starve others, and the clock is no finer anyway.
		timer.Reset(time.Duration(max(wait, int64(50*time.Microsecond))))
		select {
		case <-timer.C:
		case <-p.poke:
		}
	}
}

// tend does what is due now. It returns the workers that it has claimed for writing,
// and whether the pool has ended. Pool.mu is held.
func (p *Pool) tend(now int64) (claimed []*worker, ended bool) {
	p.share.beginLook()
	p.spread(now)
	for _, w := range slices.Clone(p.workers) {
		p.tendWorker(w, now)
		if s := w.state.State(); s != WorkerStarting && s != WorkerGone && p.claim(w) {
			claimed = append(claimed, w)
		}
	}
	p.tendBounds(now)
	p.tendIdle(now)
	p.tendAge(now)
	p.tendSize(now)
	p.tendBudget(now)
	p.madeRoom()
	return claimed, p.tendEnd(now)
}

// spread assigns queued tasks to workers with room. Pool.mu is held.
func (p *Pool) spread(now int64) {
	for p.due(now) {
		waiting := p.queue.n
		w := p.pick(p.queue.first.alone())
		if w == nil && p.queue.n < waiting {
			continue // a new process slot took one
		}
		if w == nil {
			return
		}
		c := p.queue.first
		p.queue.remove(c)
		p.give(w, p.gather(c), now)
	}
	if p.queue.n > 0 {
		p.wakeBy(p.waitsSince()) // it waits for others
	}
}

// tendWorker handles the deadlines of w and its tasks. Pool.mu is held.
func (p *Pool) tendWorker(w *worker, now int64) {
	if w.overdue != 0 && !w.exited {
		p.tendOverdue(w, now)
	}
	if w.killed || w.exited {
		return
	}
	w.driver.tend(now)
	p.tendTasks(w, now)
}

// dying reports whether a process is exiting. The kernel frees its memory before it
// closes its descriptors, so a process that closed its end by exiting has none left. On
// a busy machine the rest of the exit can take longer than a grace period.
func dying(pid int) bool {
	size, err := confine.RSS(pid)
	return errors.Is(err, os.ErrProcessDone) || err == nil && size == 0
}

// tendOverdue kills w if it has not done in time what it was asked. Pool.mu is held.
func (p *Pool) tendOverdue(w *worker, now int64) {
	switch {
	case now < w.overdue:
		p.wakeBy(w.overdue)
	case w.child != nil && (w.child.Ended() || dying(w.pid)):
		// Its exit is about to be reaped: a kill would hide the cause.
		w.overdue = now + int64(p.config.Grace)
		p.wakeBy(w.overdue)
	default:
		cause := ByEnd
		switch s := w.state.State(); {
		case s == WorkerStarting && !w.broken:
			cause = BySilence // it is not ready in time
		case s != WorkerLeaving && !w.killed:
			cause = ByProtocol
			w.fault = errNoAnswer
		}
		p.kill(w, cause, nil)
		w.overdue = 0
	}
}

// retire lets w leave: it finishes its tasks, then reads end of file and exits. Pool.mu
// is held.
func (p *Pool) retire(w *worker, cause Cause, now int64) {
	from, err := w.state.MoveAny(WorkerLeaving)
	if err != nil {
		return // it is already leaving
	}
	p.leaving++
	switch from {
	case WorkerStarting:
		p.starting--
	case WorkerIdle:
		if i := slices.Index(p.idle, w); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
		p.showIdle()
	default:
	}
	w.cause = cause
	w.emit(Event{Kind: Retired, Cause: cause})
	if w.count == 0 {
		p.dismiss(w, now)
	}
}

// dismiss asks w to exit. Pool.mu is held.
func (p *Pool) dismiss(w *worker, now int64) {
	w.driver.leave()
	if !w.exited {
		w.overdueBy(now + int64(p.config.CloseGrace)/2)
	}
}
