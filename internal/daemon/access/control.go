package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// Config configures a Control. Zero values in HTTP and Probes have the defaults of
// package settings.
type Config struct {
	HTTP   settings.HTTP
	Probes settings.Probes
	Lambda settings.Lambda
	Times  Times
	// Watch are more files to read again when they change.
	Watch []Watch
	// Logger logs every request at debug level, and faults at warn; nil logs nothing.
	Logger *slog.Logger
	// Observe is called for every answered request with its route (empty for none),
	// its status, and how long it took. It must not block. It may be nil.
	Observe func(route string, status int, took time.Duration)
}

// Watch is something that is read from a file.
type Watch struct {
	Name string // for the log
	Path string
	Load func() error
}

// Times are the time limits. Zero values have the defaults given here.
type Times struct {
	// Header bounds the time for the headers of a request: 10 s.
	Header time.Duration
	// Idle is how long a connection may wait for its next request: 2 minutes.
	Idle time.Duration
	// Body is the longest pause within a body, and the period over which its rate is
	// measured: 10 s. In each period at least 1 KiB/s must arrive, 64 KiB/s while
	// other bodies wait for room.
	Body time.Duration
	// Drain is how long the server waits for the rest of an unread body: 2 s.
	Drain time.Duration
	// Answer is the longest pause of a client that reads an answer: 30 s.
	Answer time.Duration
	// Room bounds how long a body waits for room in the budget: 5 s.
	Room time.Duration
	// Place is how long new connections wait, before they are refused, while every
	// connection is at work: 5 s.
	Place time.Duration
	// Settle is how long a connection may wait for a request before a new connection
	// may take its place when all places are taken: 1 s.
	Settle time.Duration
	// Look is how often files of tokens and certificates are checked for changes: 1
	// s.
	Look time.Duration
}

const (
	defaultListen      = "127.0.0.1:8650"
	defaultBody        = 64 << 20
	defaultInflight    = 256 << 20
	defaultConnections = 4096
	probeConnections   = 256
	maxHeaderBytes     = 64 << 10
	maxClients         = 8192 // entries in the tables of rates and of failed attempts
	failedTries        = 10   // per minute and address
)

// Control protects the API. It is safe for concurrent use.
type Control struct {
	http     settings.HTTP
	probes   settings.Probes
	lambda   settings.Lambda
	times    Times
	log      *slog.Logger
	observe  func(route string, status int, took time.Duration) // may be nil
	hosts    []host
	tokens   *tokens      // nil if no tokens are required
	cert     *certificate // nil without TLS
	rates    *buckets     // nil for no limit
	failures *buckets
	room     *budget
	streams  *shares
	files    []*watched // files to watch for changes
}

// New checks c and reads the tokens and the certificate. The error lists all faults.
func New(c Config) (*Control, error) {
	g := &Control{http: c.HTTP, probes: c.Probes, lambda: c.Lambda, times: c.Times.withDefaults(), log: c.Logger, observe: c.Observe}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	setDefault(&g.http.Listen, defaultListen)
	setDefault(&g.http.MaxBody, defaultBody)
	setDefault(&g.http.MaxInflight, max(defaultInflight, g.http.MaxBody))
	setDefault(&g.http.MaxConnections, defaultConnections)
	setDefault(&g.http.MaxStreams, max(g.http.MaxConnections/2, 1))
	setDefault(&g.http.MaxClientStreams, max(g.http.MaxStreams/2, 1))
	faults := check(g.http)
	hosts, err := parseHosts(g.http.Hosts)
	if err != nil {
		faults = append(faults, err)
	}
	g.hosts = hosts
	if g.http.Tokens != "" {
		g.tokens = &tokens{path: g.http.Tokens}
		if err = g.open("tokens", g.tokens.load, g.http.Tokens); err != nil {
			faults = append(faults, err)
		}
	}
	if g.http.Cert != "" && g.http.Key != "" {
		g.cert = &certificate{cert: g.http.Cert, key: g.http.Key}
		if err = g.open("certificate", g.cert.load, g.http.Cert, g.http.Key); err != nil {
			faults = append(faults, err)
		}
	}
	for _, w := range c.Watch {
		if err = g.open(w.Name, w.Load, w.Path); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if g.http.Rate > 0 {
		g.rates = newBuckets(g.http.Rate, max(2*g.http.Rate, 1), maxClients)
	}
	g.failures = newBuckets(failedTries/60.0, failedTries, maxClients)
	g.streams = newShares(g.http.MaxStreams, g.http.MaxClientStreams)
	g.room = newBudget(g.http.MaxInflight, g.times.Room)
	return g, nil
}

// open calls load for something read from files. It records the state of the files
// first, so that no later change is missed.
func (g *Control) open(name string, load func() error, paths ...string) error {
	g.files = append(g.files, newWatched(name, load, paths...))
	return load()
}

// check checks settings, without reading files.
func check(h settings.HTTP) []error {
	var faults []error
	loopback, err := isLoopback(h.Listen)
	switch {
	case err != nil:
		faults = append(faults, err)
	case !loopback && (h.Cert == "" || h.Tokens == ""):
		faults = append(faults, fmt.Errorf("http.listen: %s can be reached from other machines, which needs both TLS (http.tls.cert, http.tls.key) and tokens (http.tokens): set them, or listen on 127.0.0.1", h.Listen))
	}
	if (h.Cert == "") != (h.Key == "") {
		faults = append(faults, errors.New("http.tls: cert and key belong together: set both or none"))
	}
	for _, n := range []struct {
		key   string
		value int64
	}{{"max_body", h.MaxBody}, {"max_inflight", h.MaxInflight}, {"max_connections", int64(h.MaxConnections)}, {"max_streams", int64(h.MaxStreams)}, {"max_client_streams", int64(h.MaxClientStreams)}} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("http.%s: %d is negative: set a positive number, or leave it out", n.key, n.value))
		}
	}
	if h.MaxBody > h.MaxInflight {
		faults = append(faults, fmt.Errorf("http.max_inflight: %d is less than http.max_body (%d), so the largest body would never fit: raise the one or lower the other", h.MaxInflight, h.MaxBody))
	}
	if h.Rate < 0 || h.Rate != h.Rate {
		faults = append(faults, errors.New("http.rate: it is not a positive number: set a number of requests per second, or 0 for no limit"))
	}
	return faults
}

// isLoopback reports whether an address to listen on can be reached from this machine
// only.
func isLoopback(listen string) (bool, error) {
	name, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false, fmt.Errorf("http.listen: %q is not host:port: %w", listen, err)
	}
	if strings.EqualFold(name, "localhost") {
		return true, nil // the name is resolved and checked when listening
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback(), nil
}

func (t Times) withDefaults() Times {
	setDefault(&t.Header, 10*time.Second)
	setDefault(&t.Idle, 2*time.Minute)
	setDefault(&t.Body, 10*time.Second)
	setDefault(&t.Drain, 2*time.Second)
	setDefault(&t.Answer, 30*time.Second)
	setDefault(&t.Room, 5*time.Second)
	setDefault(&t.Place, 5*time.Second)
	setDefault(&t.Settle, time.Second)
	setDefault(&t.Look, time.Second)
	return t
}

// setDefault sets a default if v is zero.
func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
