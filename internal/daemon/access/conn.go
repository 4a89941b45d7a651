package access

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection. It bounds how long its client may leave an answer unread.
// Each part of a write has its own deadline, so that a slow reader gets the whole
// answer and one that does not read is disconnected.
type conn struct {
	net.Conn
	from *listener
	once sync.Once

	// waits is the time, in nanoseconds after the listener began, since when the
	// connection has waited for a request; atWork during a request.
	waits atomic.Int64
	// spare reports that the connection has a spare place; written with from.mu held.
	spare atomic.Bool

	until atomic.Int64 // the write deadline in force, in Unix nanoseconds
	own   atomic.Bool  // a handler or the server has set its own deadline
}

const atWork = -1

// sendBuffer is the kernel's send buffer for a client, in bytes. The kernel reports
// room only when a third is free, so with a large buffer a slow reader looks like one
// that does not read. By default the buffer of each of 4096 such clients could also
// grow to 4 MiB.
const sendBuffer = 256 << 10

// writePart is how many bytes must be sent within one deadline: with the 30 s of
// Times.Answer this requires about 1 KiB/s.
const writePart = 32 << 10

// Write writes p in parts.
func (c *conn) Write(p []byte) (int, error) {
	done := 0
	for {
		c.roll()
		n, err := c.Conn.Write(p[done:min(len(p), done+writePart)])
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// roll sets the deadline of the next part.
func (c *conn) roll() {
	if c.own.Load() {
		return
	}
	until := time.Now().Add(c.from.answer)
	if d := until.UnixNano() - c.until.Load(); d >= 0 && d < int64(c.from.answer/rollShare) {
		return
	}
	c.until.Store(until.UnixNano())
	c.Conn.SetWriteDeadline(until) //nolint:errcheck // the write says it if the connection is gone
}

// SetWriteDeadline replaces the rolling deadlines by t. The zero time restores them:
// every write has a deadline.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		if c.own.CompareAndSwap(true, false) {
			c.until.Store(0)
		}
		return nil
	}
	c.own.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite lets the client read an answer before the connection is closed.
func (c *conn) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.once.Do(func() { c.from.leave(c) })
	return c.Conn.Close()
}

// onState records whether a connection waits for a request or has one.
func onState(nc net.Conn, s http.ConnState) {
	c := connOf(nc)
	if c == nil {
		return
	}
	switch s {
	case http.StateActive, http.StateHijacked:
		c.waits.Store(atWork)
	case http.StateIdle:
		c.waits.Store(c.from.now())
	case http.StateNew, http.StateClosed: // it waits from the start, and Close frees its place
	}
}
