package access

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// spareConnections is the number of places beyond http.max_connections. A connection
// with a spare place serves only probes and administrators, until it gets a common
// place.
const spareConnections = 32

// connKey is the context key of a request's *conn.
type connKey struct{}

// connOf returns our connection beneath the server's.
func connOf(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

func withConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(nc))
}

// mayPass gets a common place for a request that may not use a spare one, and reports
// whether the request may be served.
func (x *exchange) mayPass(ctx context.Context, r *Route) bool {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil || !c.spare.Load() {
		return true
	}
	if !r.Follows && (monitored(x.request.URL.Path) || r.Role == Admin || x.role == Admin && x.control.tokens != nil) {
		return true
	}
	return c.from.promote(ctx, c)
}

// monitored reports whether a path is requested by monitoring.
func monitored(path string) bool { return probe(path) || path == "/metrics" }

func noPlace(w http.ResponseWriter) *problem.Problem {
	w.Header().Set("Connection", "close")
	p := problem.New(problem.Rate, allTaken)
	p.RetryAfter = 5 * time.Second
	return p
}

// promote moves c from a spare place to a common one, waiting for one if necessary.
func (l *listener) promote(ctx context.Context, c *conn) bool {
	l.mu.Lock()
	crowded := l.rising >= max(l.spare/2, 1)
	if !crowded {
		l.rising++
	}
	l.mu.Unlock()
	if crowded { // the remaining ones are for probes
		return false
	}
	defer func() {
		l.mu.Lock()
		l.rising--
		l.mu.Unlock()
	}()
	end := time.NewTimer(l.settle + l.patient)
	defer end.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for !l.rise(c) {
		select {
		case <-look.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// rise moves c to a common place if there is one.
func (l *listener) rise(c *conn) bool {
	l.mu.Lock()
	var oldest *conn
	if len(l.open)-l.spared >= l.most {
		var since int64
		oldest, since = l.oldest(func(o *conn) bool { return !o.spare.Load() })
		if oldest == nil || time.Duration(l.now()-since) < l.settle {
			l.mu.Unlock()
			return false
		}
		delete(l.open, oldest)
	}
	if c.spare.CompareAndSwap(true, false) {
		l.spared--
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return true
}

// shares counts the open event streams, in total and per client.
type shares struct {
	most, each int

	mu  sync.Mutex
	all int            // guarded by mu
	of  map[client]int // guarded by mu
}

func newShares(most, each int) *shares {
	return &shares{most: most, each: each, of: make(map[client]int)}
}

// enter begins a stream; full names the exceeded limit.
func (s *shares) enter(who client) (full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.all >= s.most:
		return "http.max_streams"
	case s.of[who] >= s.each:
		return "http.max_client_streams"
	}
	s.all++
	s.of[who]++
	return ""
}

func (s *shares) leave(who client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[who]--; s.of[who] == 0 {
		delete(s.of, who)
	}
}
