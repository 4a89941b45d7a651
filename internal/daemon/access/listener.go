package access

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"
)

// listener hands out a bounded number of places to connections.
//
// When all are taken, a new connection gets the place of the one that has waited
// longest for a request, or for the rest of its headers. So a client that opens many
// idle connections cannot keep others out. While every connection is at work, new
// ones wait for a moment and are then refused; in the kernel's backlog they would get
// no answer at all. Some more places are for probes and administrators, see spare.go.
type listener struct {
	net.Listener
	most, spare             int
	refusal                 string // the answer to connections without a place
	answer, settle, patient time.Duration
	secure                  bool // TLS: a refusal in plain text would not be understood
	began                   time.Time

	mu   sync.Mutex
	open map[*conn]struct{} // guarded by mu
	full time.Time          // since when every connection has been at work; guarded by mu
	// spared is how many of open have a spare place, and rising how many of these
	// wait for a common one; guarded by mu.
	spared, rising int

	left      chan struct{} // capacity 1: signals that a place was freed
	done      chan struct{} // closed by Close
	closeOnce sync.Once
	closeErr  error
	watching  sync.WaitGroup
}

// Listen opens the address of the API, with TLS if there is a certificate. While the
// listener is open, changed files of tokens and certificates are read again.
func (g *Control) Listen(ctx context.Context) (net.Listener, error) {
	l, err := g.listen(ctx, g.http.Listen, g.http.MaxConnections, spareConnections)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w", err)
	}
	if reachable(l) && (g.cert == nil || g.tokens == nil) {
		_ = l.Close()
		return nil, fmt.Errorf("http.listen: %s resolves to %s, which other machines can reach; that needs TLS and tokens: set http.tls and http.tokens, or listen on 127.0.0.1", g.http.Listen, l.Addr())
	}
	if len(g.files) > 0 {
		// Ends with the listener; Close waits for it.
		l.watching.Go(func() { g.watch(g.files, l.done) })
	}
	return g.encrypted(l), nil
}

// ListenLambda opens the address of the Lambda front, with TLS if there is a
// certificate.
func (g *Control) ListenLambda(ctx context.Context) (net.Listener, error) {
	l, err := g.listen(ctx, g.lambda.Listen, g.http.MaxConnections, 0)
	if err != nil {
		return nil, fmt.Errorf("lambda.listen: %w", err)
	}
	l.refusal = lambdaRefusal
	if reachable(l) && (g.cert == nil || g.lambda.Keys == "") {
		_ = l.Close()
		return nil, fmt.Errorf("lambda.listen: %s resolves to %s, which other machines can reach; that needs TLS and keys: set http.tls and lambda.keys, or listen on 127.0.0.1", g.lambda.Listen, l.Addr())
	}
	return g.encrypted(l), nil
}

// reachable reports whether other machines can reach l.
func reachable(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return !ok || !a.IP.IsLoopback()
}

// encrypted returns l with TLS if there is a certificate.
func (g *Control) encrypted(l *listener) net.Listener {
	if g.cert == nil {
		return l
	}
	l.secure = true
	return tls.NewListener(l, g.cert.config())
}

// ListenProbes opens the address for probes.
func (g *Control) ListenProbes(ctx context.Context) (net.Listener, error) {
	l, err := g.listen(ctx, g.probes.Listen, probeConnections, 0)
	if err != nil {
		return nil, fmt.Errorf("probes.listen: %w", err)
	}
	return l, nil
}

func (g *Control) listen(ctx context.Context, address string, most, spare int) (*listener, error) {
	var c net.ListenConfig
	inner, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{
		Listener: inner, most: most, spare: spare, refusal: apiRefusal,
		answer: g.times.Answer, settle: g.times.Settle, patient: g.times.Place, began: time.Now(),
		open: map[*conn]struct{}{}, left: make(chan struct{}, 1), done: make(chan struct{}),
	}, nil
}

// now returns the time since the listener began, in nanoseconds.
func (l *listener) now() int64 { return int64(time.Since(l.began)) }

// Accept returns the next connection that gets a place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if t, ok := inner.(*net.TCPConn); ok {
			t.SetWriteBuffer(sendBuffer) //nolint:errcheck // it works without, too
		}
		c := &conn{Conn: inner, from: l}
		c.waits.Store(l.now())
		if l.place(c) {
			return c, nil
		}
		l.refuse(inner)
	}
}

// place finds a place for c, and reports whether it did.
func (l *listener) place(c *conn) bool {
	for {
		oldest, wait, ok := l.enter(c)
		if oldest != nil {
			_ = oldest.Close()
		}
		if ok {
			return true
		}
		if wait <= 0 {
			return false
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.left:
		case <-timer.C:
		case <-l.done:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// enter takes a place for c, if necessary that of oldest. Without a place, wait is
// the time until the next try; zero means to give up.
func (l *listener) enter(c *conn) (oldest *conn, wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open)-l.spared < l.most {
		l.open[c] = struct{}{}
		l.full = time.Time{}
		return nil, 0, true
	}
	oldest, since := l.oldest(func(*conn) bool { return true })
	age := time.Duration(l.now() - since)
	if oldest != nil && age >= l.settle {
		delete(l.open, oldest)
		c.spare.Store(oldest.spare.Load())
		l.open[c] = struct{}{}
		l.full = time.Time{}
		return oldest, 0, true
	}
	if l.spared < l.spare {
		c.spare.Store(true)
		l.spared++
		l.open[c] = struct{}{}
		return nil, 0, true
	}
	if oldest != nil {
		return nil, l.settle - age, false
	}
	if l.full.IsZero() {
		l.full = time.Now()
	}
	return nil, min(l.patient-time.Since(l.full), lookAgain), false
}

// lookAgain is how often to check for a connection that has become idle.
const lookAgain = 100 * time.Millisecond

// oldest returns the connection, among those for which of is true, that has waited
// longest for a request, and since when; nil if all are at work. mu is held.
func (l *listener) oldest(of func(*conn) bool) (oldest *conn, since int64) {
	for o := range l.open {
		if w := o.waits.Load(); w != atWork && (oldest == nil || w < since) && of(o) {
			oldest, since = o, w
		}
	}
	return oldest, since
}

// leave frees the place of c.
func (l *listener) leave(c *conn) {
	l.mu.Lock()
	if _, there := l.open[c]; there {
		delete(l.open, c)
		if c.spare.Load() {
			l.spared--
		}
	}
	l.full = time.Time{}
	l.mu.Unlock()
	select {
	case l.left <- struct{}{}:
	default:
	}
}

// The answers to a connection that gets no place.
var (
	apiRefusal = refusal("Content-Type: application/problem+json",
		`{"type":"urn:bullpen:problem:rate","title":"Too many requests","status":429,"cause":"rate","detail":"`+allTaken+`"}`)
	lambdaRefusal = refusal("Content-Type: application/json\r\nX-Amzn-ErrorType: TooManyRequestsException",
		`{"Type":"User","Reason":"ConcurrentInvocationLimitExceeded","Message":"`+allTaken+`"}`)
)

const allTaken = "all connections (http.max_connections) are in use: try again later, or let clients reuse connections"

func refusal(headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 429 Too Many Requests\r\n%s\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", headers, len(body), body)
}

func (l *listener) refuse(c net.Conn) {
	if !l.secure {
		c.SetWriteDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // nothing more can be done
		c.Write([]byte(l.refusal))                           //nolint:errcheck // as above
	}
	_ = c.Close()
}

// Close closes the listener, and waits for its goroutines.
func (l *listener) Close() error {
	l.closeOnce.Do(func() {
		close(l.done)
		l.closeErr = l.Listener.Close()
	})
	l.watching.Wait()
	return l.closeErr
}
