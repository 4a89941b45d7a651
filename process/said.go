package process

import (
	"sync"
	"time"
)

// said counts the records of a task that its observer has not received yet, so that the
// outcome is delivered after them. It is created with the first record of a task that
// has an observer.
type said struct {
	mu      sync.Mutex
	unheard int   // guarded by mu
	holds   *call // the ended task, until its outcome is delivered; else nil; guarded by mu
}

// lastWords is how long an outcome waits for a slow observer. Only the caller is
// delayed. It covers a host with no processor to spare.
const lastWords = 100 * time.Millisecond

// says counts a record of c. Pool.mu is held.
func (c *call) says() *said {
	if c.said == nil {
		c.said = &said{}
	}
	c.said.mu.Lock()
	c.said.unheard++
	c.said.mu.Unlock()
	return c.said
}

// heard counts a received record. If it was the last one that an outcome waited for,
// heard returns the task.
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

// hold keeps c, which has ended, until its records are received. After lastWords it
// calls deliver anyway. It reports false if there is nothing to wait for.
func (s *said) hold(c *call, deliver func(*call)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unheard == 0 {
		return false
	}
	s.holds = c
	time.AfterFunc(lastWords, func() {
		if c := s.release(); c != nil {
			deliver(c)
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
