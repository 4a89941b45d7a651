package trace

import (
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/level"
)

// Starts records when the workers of a pool were started, and their processes. The
// zero value is ready to use; a nil one records nothing. All methods are safe for
// concurrent use.
type Starts struct {
	mu   sync.Mutex
	all  map[string]began // by name of the worker; guarded by mu
	gone []gone           // ended workers, in the order of their end; guarded by mu
}

type began struct {
	pid          int
	start, ready time.Time
}

type gone struct {
	worker string
	at     time.Time
}

// memory is how long an ended worker is kept: the spans of its last task may not have
// been sent.
const memory = time.Minute

// mostGone bounds the number of ended workers, which matters when each worker runs
// only one task.
const mostGone = 1 << 14

// Starts returns a Starts for a pool's workers; nil without traces.
func (t *Tracer) Starts() *Starts {
	if t == nil {
		return nil
	}
	return new(Starts)
}

// Note records an event of the pool.
func (s *Starts) Note(e *level.Event) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case level.Started:
		if s.all == nil {
			s.all = make(map[string]began)
		}
		s.all[e.Worker] = began{pid: e.PID, start: e.Time}
	case level.Ready:
		if b, ok := s.all[e.Worker]; ok {
			b.ready = e.Time
			s.all[e.Worker] = b
		}
	case level.Ended, level.StartFailed:
		s.gone = append(s.gone, gone{e.Worker, e.Time})
		s.forget(e.Time)
	default:
	}
}

// forget removes workers that ended long ago. s.mu is held.
func (s *Starts) forget(now time.Time) {
	n := 0
	for n < len(s.gone) && (len(s.gone)-n > mostGone || now.Sub(s.gone[n].at) > memory) {
		delete(s.all, s.gone[n].worker)
		n++
	}
	s.gone = s.gone[n:]
}

// of adds the worker's process to a run. If the task waited for the worker's start,
// it returns a span of the start, and the run then begins no earlier than the worker
// was ready. Otherwise it returns nil.
func (s *Starts) of(run *span) *span {
	s.mu.Lock()
	b, ok := s.all[run.worker]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	if b.pid > 0 {
		run.number(keyPID, int64(b.pid))
	}
	if !b.ready.After(run.accepted) || b.ready.After(run.end) {
		return nil
	}
	if run.start.Before(b.ready) {
		run.start = b.ready
	}
	began := span{
		trace: run.trace, id: newSpanID(), parent: run.waiting, state: run.state, name: "start worker", kind: kindInternal,
	}
	began.between(b.start, b.ready)
	began.text(keyWorker, run.worker)
	if b.pid > 0 {
		began.number(keyPID, int64(b.pid))
	}
	return &began
}
