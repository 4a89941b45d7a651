//go:build unix

package client

import (
	"errors"
	"net"
	"syscall"
)

// hasLines reports that connections can be checked without blocking.
const hasLines = true

// quiet reports whether a connection is open and has no unread data. A write would
// not show that the other side has closed it.
func quiet(c net.Conn) bool {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = control.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && open
}
