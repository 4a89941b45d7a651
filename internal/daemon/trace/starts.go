package trace

import (
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/process"
)

// Starts knows when the workers of a pool were started, and their processes. The
// zero value is ready; a nil one knows nothing. All methods are safe for concurrent
// use.
type Starts struct {
	mu   sync.Mutex
	all  map[string]began // by the name of the worker; guarded by mu
	gone []gone           // in the order in which they went; guarded by mu
}

type began struct {
	pid          int
	start, ready time.Time
}

type gone struct {
	worker string
	at     time.Time
}

// memory is how long is known of a worker that has gone: the spans of its last task
// may not have been sent.
const memory = time.Minute

// mostGone bounds those that have gone, where workers last for one task each.
const mostGone = 1 << 14

// Starts returns what knows of workers that are to be started, nil where there are
// no traces.
func (t *Tracer) Starts() *Starts {
	if t == nil {
		return nil
	}
	return new(Starts)
}

// Note takes an event of the pool.
func (s *Starts) Note(e *process.Event) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case process.Started:
		if s.all == nil {
			s.all = make(map[string]began)
		}
		s.all[e.Worker] = began{pid: e.PID, start: e.Time}
	case process.Ready:
		if b, ok := s.all[e.Worker]; ok {
			b.ready = e.Time
			s.all[e.Worker] = b
		}
	case process.Stopped, process.Died, process.StartFailed:
		s.gone = append(s.gone, gone{e.Worker, e.Time})
		s.forget(e.Time)
	default:
	}
}

// forget forgets those that went long ago. s.mu is held.
func (s *Starts) forget(now time.Time) {
	n := 0
	for n < len(s.gone) && (len(s.gone)-n > mostGone || now.Sub(s.gone[n].at) > memory) {
		delete(s.all, s.gone[n].worker)
		n++
	}
	s.gone = s.gone[n:]
}

// of adds to a run the process of its worker. Where the task has waited for that to
// start, it returns a span of the start, nil otherwise; then the run begins when the
// worker was ready at the earliest, whatever moment was reckoned for it.
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
