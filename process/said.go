package process

import (
	"sync"
	"time"
)

// said counts what a task has said to its observer and the observer has not heard
// yet, so that who is told the outcome has heard the task out. It is made with the
// first word of a task that has an observer.
type said struct {
	mu      sync.Mutex
	unheard int   // guarded by mu
	holds   *call // the task, which has ended; nil while it runs and once it is told; guarded by mu
}

// lastWords is how long an outcome waits for a slow observer. It holds nobody but the
// caller up.
const lastWords = 10 * time.Millisecond

// says notes a word of c. Pool.mu is held.
func (c *call) says() *said {
	if c.said == nil {
		c.said = &said{}
	}
	c.said.mu.Lock()
	c.said.unheard++
	c.said.mu.Unlock()
	return c.said
}

// heard takes a word away, and returns the task if that was the last one that its
// outcome waited for.
func (s *said) heard() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard--
	if s.unheard > 0 {
		return nil
	}
	c := s.holds
	s.holds = nil
	return c
}

// hold keeps c, which has ended, until its words are heard or told comes too late,
// and reports whether there is anything to wait for.
func (s *said) hold(c *call, told func(*call)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unheard == 0 {
		return false
	}
	s.holds = c
	time.AfterFunc(lastWords, func() {
		if c := s.release(); c != nil {
			told(c)
		}
	})
	return true
}

func (s *said) release() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.holds
	s.holds = nil
	return c
}
