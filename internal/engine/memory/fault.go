package memory

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Operation is what an engine has been asked for.
type Operation struct {
	// Name is "put", "get", "delete", "scan", "take", "depth", "pause", "ack",
	// "nak", "extend", "send" or "info".
	Name   string
	Stream engine.Stream
	// Subject is empty for "delete", which knows Seq alone. For "take", "depth"
	// and "pause" it is that of the consumer's jobs, without an id.
	Subject string
	Seq     uint64
}

// Fault is what becomes of an operation. The zero value leaves it alone.
type Fault struct {
	// Err is the operation's error; nothing is done. An ack, nak or extend is
	// lost, as they have no error.
	Err error
	// Stored lets a put be stored although its caller gets Err: the answer was
	// lost.
	Stored bool
	// Delay is how much later the operation ends: a put is stored at once and
	// done is called later; all others that may block wait first. Closing the
	// engine ends the delay.
	Delay time.Duration
}

// Inject lets f decide about every operation of all engines from now on; nil
// decides nothing. f is called by many goroutines and must not call an engine.
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

// late is the answer to a put that is held back.
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
