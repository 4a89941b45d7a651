package guard

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

// Config says what a Guard lets pass. Of HTTP and Probes, zero values have the
// defaults of package settings.
type Config struct {
	HTTP   settings.HTTP
	Probes settings.Probes
	Times  Times
	// Logger is told of every request at debug level, and of faults at warn; nil
	// logs nothing.
	Logger *slog.Logger
	// Observe is told of every request that was answered: by which route, empty for
	// none, with which status, and how long it took. It must not block. Nil is told
	// nothing.
	Observe func(route string, status int, took time.Duration)
}

// Times are the bounds on waiting. Zero values have the defaults that are said.
type Times struct {
	// Header is the longest that the headers of a request may take: 10 s.
	Header time.Duration
	// Idle is how long a connection may wait for its next request: 2 minutes.
	Idle time.Duration
	// Body is the longest pause within a body, and what its rate is measured over:
	// 10 s. In each such span at least 1 KiB/s must arrive, 64 KiB/s while others
	// wait for room.
	Body time.Duration
	// Drain is how long is waited for the rest of a body that nobody reads: 2 s.
	Drain time.Duration
	// Answer is the longest pause of a client that reads an answer: 30 s.
	Answer time.Duration
	// Room is the longest that a body waits for room among all bodies: 5 s.
	Room time.Duration
	// Place is how long newcomers wait while every connection is at work, before
	// they are refused: 5 s.
	Place time.Duration
	// Settle is how long a connection may wait for a request before a newcomer may
	// take its place when all places are taken: 1 s.
	Settle time.Duration
	// Look is how often files of tokens and certificates are looked at: 1 s.
	Look time.Duration
}

const (
	defaultListen      = "127.0.0.1:8650"
	defaultBody        = 64 << 20
	defaultInflight    = 256 << 20
	defaultConnections = 4096
	probeConnections   = 256
	maxHeaderBytes     = 64 << 10
	maxClients         = 8192 // in the tables of rates and of failed tries
	failedTries        = 10   // a minute and address
)

// Guard keeps the edge. It is safe for concurrent use.
type Guard struct {
	http     settings.HTTP
	probes   settings.Probes
	times    Times
	log      *slog.Logger
	observe  func(route string, status int, took time.Duration) // nil for nobody
	hosts    []host
	tokens   *tokens      // nil where callers need none
	cert     *certificate // nil without TLS
	rates    *buckets     // nil without a bound
	failures *buckets
	room     *budget
	streams  *shares
	files    []*watched // handed to who watches them
}

// New checks c and reads the tokens and the certificate. Its error has all that
// is wrong.
func New(c Config) (*Guard, error) {
	g := &Guard{http: c.HTTP, probes: c.Probes, times: c.Times.withDefaults(), log: c.Logger, observe: c.Observe}
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

// open loads something from files. It has looked at them before, so that no later
// change is missed.
func (g *Guard) open(name string, load func() error, paths ...string) error {
	g.files = append(g.files, newWatched(name, load, paths...))
	return load()
}

// check finds what is wrong in settings, without looking at files.
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
		faults = append(faults, fmt.Errorf("http.max_inflight: %d is less than http.max_body (%d), so that the largest body would never find room: raise the one or lower the other", h.MaxInflight, h.MaxBody))
	}
	if h.Rate < 0 || h.Rate != h.Rate {
		faults = append(faults, errors.New("http.rate: it is no positive number: set requests a second, or 0 for no bound"))
	}
	return faults
}

// isLoopback reports whether nobody but this machine can reach an address to listen
// on.
func isLoopback(listen string) (bool, error) {
	name, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false, fmt.Errorf("http.listen: %q is no host:port: %w", listen, err)
	}
	if strings.EqualFold(name, "localhost") {
		return true, nil // what it stands for is looked at once it listens
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

// setDefault puts a default where nothing is set.
func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
