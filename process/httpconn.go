package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// webConn is a connection to a worker that shows whether the worker has read what was sent.
type webConn struct {
	net.Conn

	wrote atomic.Bool // since the last read
}

// errUnread means that the worker has closed a connection before it had read all.
var errUnread = errors.New("the worker has closed the connection before it had read all")

// Write is [net.Conn]. It does not write to a worker that has closed the connection, so that
// the request can be sent on another one.
func (c *webConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	if wire.Hung(c.Conn) {
		return 0, fmt.Errorf("%w: %w", errUnread, syscall.EPIPE)
	}
	return c.Conn.Write(b)
}

// Read is [net.Conn].
func (c *webConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.wrote.Store(false)
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) && (!c.wrote.Load() || wire.Reset(c.Conn)) {
		err = errUnread
	}
	return n, err
}
