package lambda

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// admitted is a listener that bounds the connections, and closes those that are not from
// the worker.
type admitted struct {
	net.Listener

	admit func(net.Conn) error
	free  chan struct{} // an element for each open connection
}

// Accept is [net.Listener].
func (l *admitted) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		if l.admit != nil && l.admit(conn) != nil {
			_ = conn.Close()
			<-l.free
			continue
		}
		return &watched{Conn: conn, free: l.free, ended: make(chan struct{})}, nil
	}
}

// watched is an admitted connection. It notes how the worker ends it: the kernel resets a
// connection whose process had not read all that was sent, see RFC 2525 section 2.17.
type watched struct {
	net.Conn

	free   chan struct{}
	asked  bool // identify has run; its requests come one after the other
	holder int  // process that the worker has forked, at the other end; 0 for none, or unknown
	closed atomic.Bool
	once   sync.Once
	ended  chan struct{} // closed when nothing more can be read
	reset  bool          // guarded by once, and by ended
}

// Read is [net.Conn].
func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !isTimeout(err) {
		c.end(errors.Is(err, syscall.ECONNRESET) || wire.Reset(c.Conn))
	}
	return n, err
}

// isTimeout reports whether a read has ended at its deadline: the server ends a read so to
// take the connection over.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// over reports whether the worker has ended the connection.
func (c *watched) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return wire.Hung(c.Conn)
	}
}

func (c *watched) end(reset bool) {
	c.once.Do(func() {
		c.reset = reset
		close(c.ended)
	})
}

// Close is [net.Conn].
func (c *watched) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		c.end(false)
		<-c.free
	}
	return err
}

// connection is the key of the connection in the context of a request.
type connection struct{}

func remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, conn)
}
