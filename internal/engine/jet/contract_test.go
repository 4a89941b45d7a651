package jet

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/broker"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
)

// embedded is a store in a folder: each engine has a server of its own in this
// process.
type embedded struct{ dir string }

// whole is an engine that stops its server when it is closed.
type whole struct {
	*Engine
	broker *broker.Broker
}

func (w *whole) Close(ctx context.Context) error {
	if err := w.Engine.Close(ctx); err != nil {
		return err
	}
	return w.broker.Close(ctx)
}

func (s embedded) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	b, err := broker.Open(ctx, broker.Config{Dir: s.dir, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect("", nats.InProcessServer(b.Server()))
	if err != nil {
		return nil, fmt.Errorf("connecting in this process: %w", err)
	}
	e, err := Open(ctx, Config{Conn: conn, Disk: b, Owned: true, Options: o})
	if err != nil {
		conn.Close()
		_ = b.Close(ctx)
		return nil, err
	}
	return &whole{Engine: e, broker: b}, nil
}

func newEmbedded(t *testing.T) engine.Store {
	t.Helper()
	return embedded{t.TempDir()}
}

func TestContractEmbedded(t *testing.T) {
	enginetest.Run(t, enginetest.Factory{New: newEmbedded, Parallel: true})
}
