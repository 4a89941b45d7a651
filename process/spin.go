package process

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// A worker that sleeps and a caller that sleeps cost two wake-ups of a processor
// a round trip, 15 to 20 µs each where processors idle. A lone caller of a
// quick task therefore looks for its answer itself for a moment. It spins only
// where that takes no processor from a worker, and stops trying when it does
// not pay. With several callers of the shortest tasks the reader does the same,
// and lets the callers have their turns meanwhile.
const (
	spinReads   = 400 // nonblocking reads before a caller sleeps, about 40 µs
	spinBelow   = 20 * time.Microsecond
	lingerReads = 200 // looks of a reader, with a turn for others before each
	shortest    = 2 * time.Microsecond
	spinMisses  = 8   // in a row, before it is left for a while
	spinHoliday = 100 // tasks
)

// spinner keeps count of whether spinning pays.
type spinner struct {
	possible bool
	misses   atomic.Int32 // in a row; below 0: tasks left of the holiday
	active   atomic.Int32 // callers that spin
}

func (s *spinner) init() {
	s.possible = min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) > 1
}

// worthSpinning decides whether the caller that has just given a task to w, and
// wrote it, is to spin. Pool.mu is held.
func (p *Pool) worthSpinning(w *worker) bool {
	s := &p.spin
	if !s.possible || p.inHand != 1 || p.meanRun == 0 || time.Duration(p.meanRun) > spinBelow || w.talk == nil {
		return false
	}
	if n := s.misses.Load(); n < 0 {
		s.misses.Add(1)
		return false
	}
	return true
}

// worthLingering decides whether the reader of w, which has just brought the
// outcomes of several quick tasks, is to look for the next answers before it
// sleeps. Pool.mu is held.
func (p *Pool) worthLingering(w *worker) bool {
	s := &p.spin
	if !s.possible || p.meanRun == 0 || time.Duration(p.meanRun) > shortest || w.talk == nil || p.queue.n > 0 {
		return false
	}
	if len(p.workers)-p.starting-len(p.idle)-p.leaving > 1 {
		return false // it would take the processor of a worker
	}
	if n := s.misses.Load(); n < 0 {
		s.misses.Add(1)
		return false
	}
	return true
}

// linger lets the callers that know their outcomes now submit again, and waits
// for something to read; it reports whether there is.
func (s *spinner) linger(fd uintptr) bool {
	for range lingerReads {
		runtime.Gosched()
		if wire.Readable(fd) {
			s.misses.Store(0)
			return true
		}
	}
	if s.misses.Add(1) >= spinMisses {
		s.misses.Store(-spinHoliday)
	}
	return false
}

// await looks for the answer to c at w, and reports whether it came; c is taken
// then.
func (s *spinner) await(w *worker, c *call) bool {
	if s.active.Add(1) > 1 {
		s.active.Add(-1)
		return false
	}
	defer s.active.Add(-1)
	if !w.reading.TryLock() {
		return false
	}
	got, over := false, false
	err := w.out.Control(func(fd uintptr) {
		for range spinReads {
			if over = w.input.pump(fd); over {
				return
			}
			select {
			case <-c.ready:
				got = true
				return
			default:
			}
		}
	})
	w.reading.Unlock()
	// What came while the lock was held found the worker's own reader turned
	// away: it is looked for again.
	for err == nil && w.turned.Swap(false) {
		err = w.out.Control(func(fd uintptr) { over = w.input.try(fd) || over })
	}
	if over {
		w.pool.hungUp(w) // its own reader may sleep, turned away from the end
	}
	switch {
	case got:
		s.misses.Store(0)
	case s.misses.Add(1) >= spinMisses:
		s.misses.Store(-spinHoliday)
	}
	return got
}
