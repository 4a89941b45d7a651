package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hung reports whether the other end has closed a connection, and nothing is left to be
// read.
func Hung(conn net.Conn) (hung bool) {
	control(conn, func(fd int) {
		var b [1]byte
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		hung = n == 0 && err == nil
	})
	return hung
}

// Reset reports whether the other end has reset a connection: its process had closed it, or
// had ended, before it had read all that was sent. See RFC 2525 section 2.17.
func Reset(conn net.Conn) (reset bool) {
	control(conn, func(fd int) {
		fault, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		reset = err == nil && fault != 0
	})
	return reset
}

// control calls f with the descriptor of a connection, if it has one.
func control(conn net.Conn, f func(fd int)) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // closed meanwhile: nothing to see
	}
}
