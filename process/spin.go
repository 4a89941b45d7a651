package process

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// A sleeping worker and a sleeping caller cost two wake-ups per round trip, 15 to 20 µs
// each when processors are idle. A lone caller of a quick task therefore polls for its
// answer for a moment. It spins only if that takes no processor from a worker, and
// stops trying if it does not pay off. With several callers of the shortest tasks the
// reader does the same, and yields to the callers in between.
const (
	spinReads   = 400 // nonblocking reads before a caller sleeps, about 40 µs
	spinBelow   = 20 * time.Microsecond
	lingerReads = 200 // polls of a reader, which yields before each
	shortest    = 2 * time.Microsecond
	spinMisses  = 8   // in a row, before spinning pauses
	spinHoliday = 100 // tasks that the pause lasts
)

// spinner tracks whether spinning pays off.
type spinner struct {
	possible bool
	misses   atomic.Int32 // in a row; below 0, the tasks left of the pause
	active   atomic.Int32 // spinning callers
}

func (s *spinner) init() {
	s.possible = min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) > 1
}

// worthSpinning reports whether the caller that has just given a task to w and will
// write it should spin. Pool.mu is held.
func (p *Pool) worthSpinning(w *worker) bool {
	s := &p.spin
	if !s.possible || p.inHand != 1 || p.meanRun == 0 || time.Duration(p.meanRun) > spinBelow || !p.config.timed {
		return false
	}
	if n := s.misses.Load(); n < 0 {
		s.misses.Add(1)
		return false
	}
	return true
}

// worthLingering reports whether the reader of a worker, which has just received the outcomes
// of several quick tasks, should poll for the next answers before it sleeps. Pool.mu is
// held.
func (p *Pool) worthLingering() bool {
	s := &p.spin
	if !s.possible || p.meanRun == 0 || time.Duration(p.meanRun) > shortest || !p.config.timed || p.queue.n > 0 {
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

// linger yields to the callers that now have their outcomes, and polls for input. It
// reports whether there is any.
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

// await polls for the answer to c at w. It reports whether the answer came; it has then
// received from c.ready.
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
	if err == nil {
		over = w.readTurned() || over
	}
	if over {
		w.pool.hungUp(w) // its own reader may have missed the end
	}
	switch {
	case got:
		s.misses.Store(0)
	case s.misses.Add(1) >= spinMisses:
		s.misses.Store(-spinHoliday)
	}
	return got
}

// readTurned reads what came while somebody else held w.reading, and w's own reader was
// turned away from it. It reports whether that was the end.
func (w *worker) readTurned() (over bool) {
	for w.turned.Swap(false) {
		err := w.out.Control(func(fd uintptr) { over = w.input.try(fd) || over })
		if err != nil {
			break // the pipe was closed
		}
	}
	return over
}
