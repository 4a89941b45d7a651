package lambda

import (
	"net"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// A worker with several tasks at a time may fork a process for each, as the client in Python
// does. Nobody but the worker waits for these processes, so the end of one shows only at its
// connection.

// identify finds out which process that the worker has forked polls on conn, once.
func (s *Server) identify(conn *watched) {
	if s.config.Concurrency < 2 || conn == nil || conn.asked {
		return
	}
	if pid, _ := s.config.Host.Process(); pid > 0 {
		conn.asked, conn.holder = true, wire.HolderOf(conn, pid)
	}
}

// watch is called when the state of a connection changes.
func (s *Server) watch(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*watched)
	if !ok || state != http.StateClosed || c.holder == 0 || !wire.Ending(c.holder) {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.handlers.Add(1)
	s.mu.Unlock()
	defer s.handlers.Done()
	if f := s.left(c); f != nil {
		s.bury(f)
	}
}

// left returns the invocation that was handed over on a connection that is closed, and is not
// being answered.
func (s *Server) left(c *watched) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flight {
		if f.conn == c && !f.answering {
			return f
		}
	}
	return nil
}

// deathsApart is how long the processes of a worker may take to die together.
const deathsApart = 200 * time.Millisecond

// bury ends an invocation whose process has died, unless the whole worker has: then its end
// says more.
func (s *Server) bury(f *flight) {
	_, ended := s.config.Host.Process()
	together := time.NewTimer(deathsApart)
	defer together.Stop()
	select {
	case <-ended:
	case <-together.C:
		if f.conn.reset {
			s.drop(f)
		} else {
			s.answer(f, &Answer{Died: true, Ran: time.Since(f.began)})
		}
	}
}
