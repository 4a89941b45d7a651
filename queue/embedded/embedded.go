// Package embedded keeps the jobs of a queue in one folder of this machine: it
// runs a NATS server with JetStream inside the program. Import it beside package
// queue; a program that uses a server elsewhere does not, and then does not carry
// the server.
//
//	q, err := queue.Open(ctx, queue.Config{Store: embedded.At("jobs")})
//
// # What survives
//
// A confirmed job, and a recorded outcome, survive a loss of power. On Linux, on
// ext4 and xfs, all that wait for that share one call of syncfs(2), which
// is about eight times as fast as the server's own way of one fsync(2) a message;
// whether this works is tried at the start, and where it does not, the server's
// way is used: Queue.Status says so, and the log. syncfs flushes the whole file
// system, so a busy neighbour on it costs latency: give the folder a volume of its
// own where that matters.
//
// The folder belongs to one program at a time. To copy it, stop the program.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/broker"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/jet"
	"github.com/bullpen-run/bullpen/queue"
)

// Store is a folder with jobs. Only Dir is needed.
type Store struct {
	// Dir is the folder; it is made if it is not there.
	Dir string
	// SyncAlways syncs each message by itself instead of groups of them: slower,
	// and no safer than the default where that works.
	SyncAlways bool
	// Reserve is how many bytes of the disk have to be free for more jobs to be
	// taken, so that those under way can end. Default 128 MiB; on a disk below
	// 6.4 GB a fiftieth of it, but 16 MiB at least (a quarter of the disk at most).
	Reserve int64
}

// At is the store in a folder, with everything else as it is by default.
func At(dir string) Store { return Store{Dir: dir} }

var _ queue.Store = Store{}

// Open starts the server. It is called by queue.Open.
func (s Store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if s.Dir != "" {
		if err := secure(s.Dir, o.Logger); err != nil {
			return nil, err
		}
	}
	c := broker.Config{Dir: s.Dir, Reserve: s.Reserve, Logger: o.Logger}
	if s.SyncAlways {
		c.Sync = broker.SyncAlways
	}
	b, err := broker.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := connect(ctx, b, o)
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return nil, errors.Join(err, b.Close(stop))
	}
	return &running{Engine: e, broker: b}, nil
}

// stopPatience bounds how long a server may take to stop after a failed start.
const stopPatience = 5 * time.Second

func connect(ctx context.Context, b *broker.Broker, o engine.Options) (*jet.Engine, error) {
	conn, err := nats.Connect("", nats.InProcessServer(b.Server()), nats.Name("bullpen "+o.Namespace), nats.MaxReconnects(-1))
	if err != nil {
		return nil, fmt.Errorf("the embedded server takes no connection: %w", err)
	}
	e, err := jet.Open(ctx, jet.Config{Conn: conn, Owned: true, Disk: b, Options: o})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

// running is the engine with the server it runs on.
type running struct {
	*jet.Engine
	broker *broker.Broker
}

// Close ends the engine, then the server.
func (r *running) Close(ctx context.Context) error {
	return errors.Join(r.Engine.Close(ctx), r.broker.Close(ctx))
}
