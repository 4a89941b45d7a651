package natstest

import (
	"context"
	"io"
	"net"
	"sync"
)

// link is one way from one server to another: it passes connections on, until
// it is cut.
type link struct {
	listener net.Listener
	running  sync.WaitGroup // all goroutines of the link; close waits for them

	mu     sync.Mutex
	target string            // empty while nobody is there; guarded by mu
	off    bool              // guarded by mu
	conns  map[net.Conn]bool // both ends of all that is open; guarded by mu
}

// newLink returns a link that leads nowhere yet.
func newLink(ctx context.Context) (*link, error) {
	listener, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, conns: map[net.Conn]bool{}}
	l.running.Go(l.accept) // ends when close closes the listener
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// lead sets where the link leads.
func (l *link) lead(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.off
}

// cut ends all connections and lets no new one through.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = false
}

func (l *link) close() {
	_ = l.listener.Close()
	l.cut()
	l.running.Wait()
}

// accept is the goroutine of the listener.
func (l *link) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.running.Go(func() { l.pass(in) }) // ends with the connection; close waits
	}
}

// pass connects in with the target until one of them ends or the link is cut.
func (l *link) pass(in net.Conn) {
	defer func() { _ = in.Close() }()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	if target == "" || !l.add(in) {
		return
	}
	defer l.remove(in)
	var d net.Dialer
	out, err := d.DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	if !l.add(out) {
		return
	}
	defer l.remove(out)
	l.running.Go(func() { // ends when either end is closed, which pass and cut do
		pour(out, in)
		_ = out.Close()
		_ = in.Close()
	})
	pour(in, out)
}

// pour copies until one end is closed. It hides what the connections are, for
// else the copying would be left to the kernel by way of pipes that the standard
// library keeps open.
func pour(to io.Writer, from io.Reader) {
	_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
}

// add notes an open end, unless the link is cut.
func (l *link) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.off {
		l.conns[c] = true
	}
	return !l.off
}

func (l *link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
