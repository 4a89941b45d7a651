package memory

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Operation is a call of an engine's method.
type Operation struct {
	// Name is "put", "get", "delete", "scan", "take", "depth", "pause", "ack",
	// "nak", "extend", "send" or "info".
	Name   string
	Stream engine.Stream
	// Subject is empty for "delete", which only has Seq. For "take", "depth" and "pause"
	// it is the subject of the consumer's jobs, without an id.
	Subject string
	Seq     uint64
}

// Fault changes the result of an operation. The zero value changes nothing.
type Fault struct {
	// Err is the error of the operation, which then does nothing. An ack, nak or extend
	// is lost, as it has no error.
	Err error
	// Stored makes a put store its message although its caller gets Err: the answer was
	// lost.
	Stored bool
	// Delay is how much later the operation ends: a put stores at once and calls done
	// later; all other blocking operations wait first. Closing the engine ends the delay.
	Delay time.Duration
}

// Inject makes f decide about every operation of all engines from now on; nil removes it.
// Many goroutines call f, which must not call an engine.
func (s *Store) Inject(f func(Operation) Fault) {
	if f == nil {
		s.faults.Store(nil)
		return
	}
	s.faults.Store(&f)
}

func (s *Store) fault(o Operation) Fault {
	if f := s.faults.Load(); f != nil {
		return (*f)(o)
	}
	return Fault{}
}

// late is the delayed answer to a put.
type late struct {
	timer *time.Timer
	call  func()
}

// later calls f after d, or when the engine is closed.
func (e *Engine) later(d time.Duration, f func()) {
	e.store.mu.Lock()
	if e.closed {
		e.store.mu.Unlock()
		f()
		return
	}
	l := &late{}
	l.call = func() {
		defer e.running.Done()
		f()
	}
	e.running.Add(1)
	e.late[l] = struct{}{}
	// Its goroutine ends with f; Close waits for it.
	l.timer = time.AfterFunc(d, func() {
		e.store.mu.Lock()
		delete(e.late, l)
		e.store.mu.Unlock()
		l.call()
	})
	e.store.mu.Unlock()
}
