// Package brokertest runs a cluster of servers on loopback within one process,
// of which one can be stopped, started again, and cut off from the others. It is
// for tests and for trying things out: the servers share one processor and one
// disk, so it proves nothing about loss of power.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/bullpen-run/bullpen/internal/broker"
)

// Config says what cluster to start.
type Config struct {
	// Dirs are the folders of the servers, one for each. Three make a cluster
	// that outlives the loss of one.
	Dirs []string
	// Logger gets what the servers say; nil logs nothing.
	Logger *slog.Logger
}

// Cluster is a running cluster. Its methods are for one goroutine at a time.
type Cluster struct {
	c     Config
	nodes []*node
	links [][]*link // by who connects and whom it connects to; nil to itself
}

// node is one server and where it is found.
type node struct {
	config broker.Config
	broker *broker.Broker // nil while it is stopped
	url    string
}

// nowhere is an address that refuses. The servers tell each other's addresses;
// with this one they go by the links alone, which can be cut.
const nowhere = "127.0.0.1:1"

// poll is how often Wait looks.
const poll = 10 * time.Millisecond

// Start returns a cluster that can store. ctx bounds the start only.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	if len(c.Dirs) < 2 {
		return nil, fmt.Errorf("Dirs has %d folders: a cluster has at least two servers, and is of use from three", len(c.Dirs))
	}
	k := &Cluster{c: c}
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(err, k.Close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

func (k *Cluster) start(ctx context.Context) error {
	for i := range k.c.Dirs {
		var row []*link
		for j := range k.c.Dirs {
			if i == j {
				row = append(row, nil)
				continue
			}
			l, err := newLink(ctx)
			if err != nil {
				return fmt.Errorf("the link from server %d to server %d: %w", i, j, err)
			}
			row = append(row, l)
		}
		k.links = append(k.links, row)
	}
	for i, dir := range k.c.Dirs {
		cluster := &broker.ClusterConfig{Name: "test", Listen: "127.0.0.1:0", Advertise: nowhere, Client: "127.0.0.1:0"}
		for _, l := range k.links[i] {
			if l != nil {
				cluster.Routes = append(cluster.Routes, l.address())
			}
		}
		k.nodes = append(k.nodes, &node{config: broker.Config{Dir: dir, Name: fmt.Sprintf("node%d", i), Cluster: cluster, Logger: k.c.Logger}})
	}
	for i := range k.nodes {
		if err := k.open(ctx, i); err != nil {
			return err
		}
	}
	return k.Wait(ctx)
}

// open starts server i. After the first time its addresses stay the same.
func (k *Cluster) open(ctx context.Context, i int) error {
	n := k.nodes[i]
	b, err := broker.Open(ctx, n.config)
	if err != nil {
		return fmt.Errorf("server %d: %w", i, err)
	}
	n.broker, n.url = b, b.ClientURL()
	u, err := url.Parse(n.url)
	if err != nil {
		return fmt.Errorf("server %d: %w", i, err)
	}
	n.config.Cluster.Listen, n.config.Cluster.Client = b.RouteAddress(), u.Host
	for _, row := range k.links {
		if row[i] != nil {
			row[i].lead(b.RouteAddress())
		}
	}
	return nil
}

// Wait returns when all servers that run and are not cut off are connected with
// each other, agree on a leader, and can be given streams to keep.
func (k *Cluster) Wait(ctx context.Context) error {
	for {
		if k.ready() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the servers have not agreed: %w", context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

func (k *Cluster) ready() bool {
	var members []*broker.Broker
	for i, n := range k.nodes {
		if n.broker != nil && !k.isCut(i) {
			members = append(members, n.broker)
		}
	}
	leaders := 0
	for _, b := range members {
		if b.Peers() < len(members)-1 || !b.Current() {
			return false
		}
		if b.Leads() {
			leaders++
			if b.Members() < len(members) {
				return false // it would find no place for a stream with as many copies
			}
		}
	}
	return leaders == 1
}

// URLs returns where clients connect to, in the order of Dirs. They stay the
// same when a server is started again.
func (k *Cluster) URLs() []string {
	var urls []string
	for _, n := range k.nodes {
		urls = append(urls, n.url)
	}
	return urls
}

// Node returns server i, nil while it is stopped.
func (k *Cluster) Node(i int) *broker.Broker { return k.nodes[i].broker }

// Leader returns the server that leads the cluster, -1 when there is none.
func (k *Cluster) Leader() int {
	for i, n := range k.nodes {
		if n.broker != nil && !k.isCut(i) && n.broker.Leads() {
			return i
		}
	}
	return -1
}

// Stop stops server i; in order, so that it hands over what it leads.
func (k *Cluster) Stop(ctx context.Context, i int) error {
	n := k.nodes[i]
	if n.broker == nil {
		return nil
	}
	b := n.broker
	n.broker = nil
	if err := b.Close(ctx); err != nil {
		return fmt.Errorf("server %d: %w", i, err)
	}
	return nil
}

// Kill stops server i so that it can hand over nothing: the others notice that
// it is gone, as when its machine is.
func (k *Cluster) Kill(ctx context.Context, i int) error {
	k.Cut(i)
	err := k.Stop(ctx, i)
	k.Heal(i)
	return err
}

// Restart starts server i again after Stop or Kill. Wait waits until it has
// joined the others.
func (k *Cluster) Restart(ctx context.Context, i int) error {
	if k.nodes[i].broker != nil {
		return fmt.Errorf("server %d runs already", i)
	}
	return k.open(ctx, i)
}

// Cut cuts server i off from the others. Its clients still reach it.
func (k *Cluster) Cut(i int) { k.each(i, (*link).cut) }

// Heal undoes Cut.
func (k *Cluster) Heal(i int) { k.each(i, (*link).heal) }

// each does something to all links of server i.
func (k *Cluster) each(i int, do func(*link)) {
	for a, row := range k.links {
		for b, l := range row {
			if l != nil && (a == i || b == i) {
				do(l)
			}
		}
	}
}

// isCut tells whether all links of server i are cut.
func (k *Cluster) isCut(i int) bool {
	all := true
	k.each(i, func(l *link) { all = all && l.isCut() })
	return all
}

// Close stops all servers.
func (k *Cluster) Close(ctx context.Context) error {
	var errs []error
	for i := range k.nodes {
		errs = append(errs, k.Stop(ctx, i))
	}
	for _, row := range k.links {
		for _, l := range row {
			if l != nil {
				l.close()
			}
		}
	}
	return errors.Join(errs...)
}

// listen opens a free port on loopback.
func listen(ctx context.Context) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", "127.0.0.1:0")
}
