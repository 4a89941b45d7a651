package process

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A worker that sleeps and a caller that sleeps cost two wake-ups of a processor
// a round trip, 15 to 20 µs each where processors idle. A lone caller of a
// quick task therefore looks for its answer itself for a moment. It spins only
// where that takes no processor from a worker, and stops trying when it does
// not pay.
const (
	spinReads   = 400 // nonblocking reads before the caller sleeps, about 25 µs
	spinBelow   = 20 * time.Microsecond
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

// worth decides whether the caller that has just given a task to w, and wrote
// it, is to spin. Pool.mu is held.
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
