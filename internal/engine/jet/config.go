package jet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Config configures an engine. Conn and a namespace are required; the zero values of the
// other fields work.
type Config struct {
	// Conn is connected, and never stops trying to reconnect: see [Connect].
	Conn *nats.Conn
	// Replicas is how many servers hold each message; 0 is 1.
	Replicas int
	// Owned makes Close close Conn too.
	Owned bool
	// Options are the options common to all engines. Zero sizes and ages are unbounded; a
	// zero Lease is 30 seconds.
	Options engine.Options
}

// defaultLease is the lease if Options does not set one.
const defaultLease = 30 * time.Second

func (c Config) check() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if c.Conn == nil {
		fault("Conn is nil: connect first, and set the connection")
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		fault("Replicas is %d: use 1, 3 or 5", c.Replicas)
	}
	o := c.Options
	if o.Namespace == "" || strings.Trim(o.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		fault("Options.Namespace is %q: use lower-case letters, digits, \"-\" and \"_\"", o.Namespace)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Lease", int64(o.Lease)},
		{"Jobs", o.Jobs},
		{"Outcomes", o.Outcomes},
		{"OutcomeCount", o.OutcomeCount},
		{"OutcomeAge", int64(o.OutcomeAge)},
		{"Dead", o.Dead},
		{"DeadAge", int64(o.DeadAge)},
	} {
		if n.value < 0 {
			fault("Options.%s is %d: use 0 for the default, or a positive value", n.name, n.value)
		}
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	c.Replicas = max(c.Replicas, 1)
	if c.Options.Lease == 0 {
		c.Options.Lease = defaultLease
	}
	if c.Options.Logger == nil {
		c.Options.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Open creates or updates the streams, and returns the engine that uses them. If it
// fails, Conn is left as it was.
func Open(ctx context.Context, c Config) (*Engine, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("jet: %w", err)
	}
	c = c.withDefaults()
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, fmt.Errorf("jet: %w", err)
	}
	e := newEngine(c, js)
	if err := e.makeStreams(ctx); err != nil {
		return nil, err
	}
	if err := e.start(); err != nil { //nolint:contextcheck // The engine outlives the call that opens it.
		return nil, err
	}
	return e, nil
}
