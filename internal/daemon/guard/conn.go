package guard

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection. It bounds how long its client may leave an answer
// unread: each part of a write has a deadline of its own, so that a slow reader
// gets all and one that does not read is cut off.
type conn struct {
	net.Conn
	from *listener
	once sync.Once

	// waits is since when no request has been here, in nanoseconds after the
	// listener began; atWork while there is one.
	waits atomic.Int64
	// spare says that it has a spare place; written with from.mu held.
	spare atomic.Bool

	until atomic.Int64 // the write deadline in force, in Unix nanoseconds
	own   atomic.Bool  // a handler or the server has set a deadline of its own
}

const atWork = -1

// sendBuffer is what the kernel keeps of an answer for a client. It says that there
// is room again when a third is free, so that a large buffer makes a slow reader
// look like one that does not read; and of 4096 such clients each could hold the
// 4 MiB to which it grows by itself.
const sendBuffer = 256 << 10

// writePart is what must pass within one deadline: with the 30 s of
// Times.Answer this asks for 1 KiB/s.
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

// SetWriteDeadline puts t in the place of the deadlines that roll. The zero time
// takes it back: there is no write without a deadline.
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

// Close gives the place back.
func (c *conn) Close() error {
	c.once.Do(func() { c.from.leave(c) })
	return c.Conn.Close()
}

// onState notes whether a connection waits for a request or has one.
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
	case http.StateNew, http.StateClosed: // it waits from the start, and leaves by Close
	}
}
