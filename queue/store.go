package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/jet"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
)

// Server keeps jobs on a NATS server with JetStream, or on a cluster of them.
type Server struct {
	// URL is one address, or several of one cluster separated by commas:
	// "nats://a:4222,nats://b:4222".
	URL string
	// Replicas is the number of servers that have each job: 1, 3 or 5. Default 1. With
	// 1, what survives a loss of power depends on the server: set its sync_interval to
	// always. A number smaller than that of existing jobs is refused.
	Replicas int
	// Options are for the rest of the connection: TLS, credentials.
	Options []nats.Option
}

// Open connects to the server.
func (s Server) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	var errs []error
	if s.URL == "" {
		errs = append(errs, errors.New(`Server.URL is empty: give an address such as "nats://127.0.0.1:4222"`))
	}
	if s.Replicas != 0 && s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5 {
		errs = append(errs, fmt.Errorf("Server.Replicas is %d: use 1, 3 or 5", s.Replicas))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	conn, err := jet.Connect(s.URL, "bullpen "+o.Namespace, s.Options...)
	if err != nil {
		return nil, err
	}
	e, err := jet.Open(ctx, jet.Config{Conn: conn, Owned: true, Replicas: max(s.Replicas, 1), Options: o})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

// Memory keeps jobs in the memory of this program, for tests. Each call returns a new
// store; several queues may be opened on it, one after the other or at the same time,
// as if they were nodes of one server.
func Memory() Store { return &memory.Store{Shared: true} }
