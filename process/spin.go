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

// pays reports whether spinning has paid off of late, and counts the tasks of the pause.
func (s *spinner) pays() bool {
	if s.misses.Load() >= 0 {
		return true
	}
	s.misses.Add(1)
	return false
}

// count counts whether an answer came while somebody polled for it, and returns hit.
func (s *spinner) count(hit bool) bool {
	if hit {
		s.misses.Store(0)
	} else if s.misses.Add(1) >= spinMisses {
		s.misses.Store(-spinHoliday)
	}
	return hit
}

// worthSpinning reports whether the caller that has just given a task to w and will
// write it should spin. Pool.mu is held.
func (p *Pool) worthSpinning(w *worker) bool {
	s := &p.spin
	if !s.possible || p.inHand != 1 || p.meanRun == 0 || time.Duration(p.meanRun) > spinBelow || w.spins == nil {
		return false
	}
	return s.pays()
}

// worthLingering reports whether the reader of a worker, which has just received the
// outcomes of several quick tasks, should poll for the next answers before it sleeps.
// Pool.mu is held.
func (p *Pool) worthLingering() bool {
	s := &p.spin
	if !s.possible || p.meanRun == 0 || time.Duration(p.meanRun) > shortest || !p.config.timed || p.queue.n > 0 {
		return false
	}
	if len(p.workers)-p.starting-len(p.idle)-p.leaving > 1 {
		return false // it would take the processor of a worker
	}
	return s.pays()
}

// linger yields to the callers that now have their outcomes, and polls for input. It
// reports whether there is any.
func (s *spinner) linger(fd uintptr) bool {
	for range lingerReads {
		runtime.Gosched()
		if wire.Readable(fd) {
			return s.count(true)
		}
	}
	return s.count(false)
}

// await polls for the answer to c, which its worker has just been given. It reports
// whether the answer came; it has then received from c.ready.
func (s *stream) await(c *call) bool {
	spin := &s.w.pool.spin
	defer spin.active.Add(-1)
	if spin.active.Add(1) > 1 {
		return false
	}
	return spin.count(s.poll(c))
}
