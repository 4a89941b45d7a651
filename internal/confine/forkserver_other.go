//go:build !linux

package confine

import (
	"context"
	"time"
)

// Server is a process that forks children on request; this system has none.
type Server struct{}

// StartServer returns [ErrUnsupported].
func (s *Spawner) StartServer(context.Context, Spec, time.Duration) (*Server, error) {
	return nil, ErrUnsupported
}

// Child is nil.
func (v *Server) Child() *Child { return nil }

// Gone is nil: it is never closed.
func (v *Server) Gone() <-chan struct{} { return nil }

// Start returns [ErrUnsupported].
func (v *Server) Start(Spec) (*Child, error) { return nil, ErrUnsupported }

// Close does nothing.
func (v *Server) Close() error { return nil }
