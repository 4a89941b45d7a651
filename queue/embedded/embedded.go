// Package embedded keeps the jobs of a queue in one folder of this machine, with a
// store inside the program: nothing else has to run. Import it beside package queue; a
// program that uses a server elsewhere does not, and then does not carry the store.
//
//	q, err := queue.Open(ctx, queue.Config{Store: embedded.At("jobs")})
//
// # What survives
//
// A confirmed job, and a recorded outcome, survive a loss of power: all that wait for
// that share one fdatasync(2). What waits lies on the disk; in memory there are the next
// few hundred jobs of each queue.
//
// Everything that is stored has a checksum. Damage is never handed out: the queue fails,
// and its error names the file. A write that fails ends it as well (see
// [queue.Queue.Failed]); what was confirmed before is there when it is opened again.
//
// The folder belongs to one program at a time. To copy it, stop the program. A folder of
// an earlier release, in which a NATS server kept the jobs, is refused with words that
// say how to empty it.
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
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/queue"
)

// Store is a folder with jobs. Only Dir is needed.
type Store struct {
	// Dir is the folder; it is made if it is not there.
	Dir string
	// SyncAlways is for a Cluster; without one everything is synced anyway.
	SyncAlways bool
	// Reserve is how many bytes of the disk have to be free for more jobs to be
	// taken, so that those under way can end. Default 128 MiB; on a disk below
	// 6.4 GB a fiftieth of it, but 16 MiB at least (a quarter of the disk at most).
	Reserve int64
	// Cluster makes this program's server one of several; nil is one by itself.
	Cluster *Cluster
}

// Cluster makes the server of this program one of several that hold each job on
// Replicas of them. Then each message is synced by the servers that hold it, and
// the others are reached over the network: put them into one that is trusted, or
// set User and Password.
type Cluster struct {
	// Name is that of the cluster, Node that of this server in it; it keeps it
	// for ever.
	Name, Node string
	// Listen is where the other servers connect to, "host:port"; Routes are their
	// addresses.
	Listen string
	Routes []string
	// Client is where programs connect to that are no part of the cluster,
	// "host:port".
	Client string
	// User and Password are asked of all who connect, where they are set.
	User, Password string
	// Replicas is on how many servers each job lies: 3 (the default) or 5.
	Replicas int
}

// At is the store in a folder, with everything else as it is by default.
func At(dir string) Store { return Store{Dir: dir} }

var _ queue.Store = Store{}

// Open opens the folder. It is called by queue.Open.
func (s Store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if s.Dir != "" {
		if err := secure(s.Dir, o.Logger); err != nil {
			return nil, err
		}
	}
	if s.Cluster != nil {
		return s.openCluster(ctx, o)
	}
	e, err := pebble.Open(ctx, pebble.Config{Dir: s.Dir, Reserve: s.Reserve, Options: o})
	if err != nil {
		return nil, err // not e, which would be an interface that holds nil
	}
	return e, nil
}

// openCluster starts a server of a cluster.
func (s Store) openCluster(ctx context.Context, o engine.Options) (engine.Engine, error) {
	k := s.Cluster
	c := broker.Config{
		Dir: s.Dir, Reserve: s.Reserve, Logger: o.Logger, Name: k.Node,
		Cluster: &broker.ClusterConfig{
			Name: k.Name, Listen: k.Listen, Routes: k.Routes, Client: k.Client, User: k.User, Password: k.Password,
		},
	}
	if s.SyncAlways {
		c.Sync = broker.SyncAlways
	}
	replicas := k.Replicas
	if replicas == 0 {
		replicas = 3
	}
	b, err := broker.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := s.connect(ctx, b, o, replicas)
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return nil, errors.Join(err, b.Close(stop))
	}
	return &running{Engine: e, broker: b}, nil
}

// stopPatience bounds how long a server may take to stop after a failed start.
const stopPatience = 5 * time.Second

func (s Store) connect(ctx context.Context, b *broker.Broker, o engine.Options, replicas int) (*jet.Engine, error) {
	options := []nats.Option{nats.InProcessServer(b.Server()), nats.Name("bullpen " + o.Namespace), nats.MaxReconnects(-1)}
	if k := s.Cluster; k != nil && k.User != "" {
		options = append(options, nats.UserInfo(k.User, k.Password))
	}
	conn, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("the embedded server takes no connection: %w", err)
	}
	e, err := jet.Open(ctx, jet.Config{Conn: conn, Owned: true, Kind: "embedded", Replicas: replicas, Options: o})
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
