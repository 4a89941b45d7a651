package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
)

// Sync says how a message is made durable before it is confirmed.
type Sync uint8

const (
	// SyncAuto lets one call of syncfs confirm all messages that wait, where
	// this is known to work, and is SyncAlways elsewhere.
	SyncAuto Sync = iota
	// SyncAlways lets the server sync each message by itself: safe everywhere
	// and slow.
	SyncAlways
)

// Config says where the store is and how it is kept. Only Dir is needed.
type Config struct {
	// Dir is the folder of the store. It is made if it is not there, and belongs
	// to one program at a time.
	Dir string
	// Name names the server. A server of a cluster keeps its name for ever: the
	// others know it by that. Default "bullpen".
	Name string
	// Sync is how messages are made durable.
	Sync Sync
	// Reserve is how many bytes of the disk have to be free for [Broker.Room] to
	// let more jobs in. Default 128 MiB; on a disk below
	// 6.4 GB a fiftieth of it, but 16 MiB at least (a quarter of the disk at most).
	Reserve int64
	// Cluster makes the server one of several. Nil is a server of its own that
	// listens nowhere.
	Cluster *ClusterConfig
	// Logger gets what happens; nil logs nothing.
	Logger *slog.Logger

	// instead has what tests put in the place of the system; nil is the system.
	instead *system
}

// ClusterConfig makes the server one of several, which keep copies of each
// other's messages and sync each message themselves.
type ClusterConfig struct {
	// Name is the name of the cluster, the same on all servers.
	Name string
	// Listen is where the other servers connect to, "host:port". Port 0 takes a
	// free one.
	Listen string
	// Advertise is the address by which the others reach Listen, where that is
	// another, as behind a proxy.
	Advertise string
	// Routes are the addresses of the other servers, "host:port". One of them is
	// enough: the rest is learnt from it.
	Routes []string
	// Client is where clients connect to, "host:port". Port 0 takes a free one.
	Client string
	// User and Password, or Token, are asked of clients; User and Password also
	// of the other servers.
	User, Password, Token string
}

const defaultName = "bullpen"

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.instead == nil {
		c.instead = thisSystem()
	}
	return c
}

// check reports all faults of c at once.
func (c Config) check() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("Dir is empty: name the folder of the store"))
	}
	if c.Sync > SyncAlways {
		errs = append(errs, fmt.Errorf("Sync is %d: use SyncAuto or SyncAlways", c.Sync))
	}
	if c.Reserve < 0 {
		errs = append(errs, fmt.Errorf("Reserve is %d: say how many bytes have to stay free, or 0 for the default", c.Reserve))
	}
	if c.Cluster != nil {
		errs = append(errs, c.Cluster.check()...)
	}
	return errors.Join(errs...)
}

func (c *ClusterConfig) check() []error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("Cluster.Name is empty: give all servers of the cluster the same one"))
	}
	address := func(field, value string) {
		if _, _, err := splitAddress(value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: %w; write host:port", field, value, err))
		}
	}
	address("Cluster.Listen", c.Listen)
	address("Cluster.Client", c.Client)
	if c.Advertise != "" {
		address("Cluster.Advertise", c.Advertise)
	}
	for i, r := range c.Routes {
		address(fmt.Sprintf("Cluster.Routes[%d]", i), r)
	}
	if (c.User == "") != (c.Password == "") {
		errs = append(errs, errors.New("Cluster.User and Cluster.Password: give both or neither"))
	}
	if c.User != "" && c.Token != "" {
		errs = append(errs, errors.New("Cluster.Token: give either a token or a user, not both"))
	}
	return errs
}

func splitAddress(address string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return host, int(n), err
}

// urls returns the routes as the server wants them.
func (c *ClusterConfig) urls() []*url.URL {
	urls := make([]*url.URL, 0, len(c.Routes))
	for _, r := range c.Routes {
		u := &url.URL{Scheme: "nats-route", Host: r}
		if c.User != "" {
			u.User = url.UserPassword(c.User, c.Password)
		}
		urls = append(urls, u)
	}
	return urls
}
