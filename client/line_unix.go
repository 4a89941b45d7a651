//go:build unix

package client

import (
	"errors"
	"net"
	"syscall"
)

// hasLines says that connections can be looked at here.
const hasLines = true

// quiet reports whether a connection is open and nothing has come over it: whether
// the other side has closed it cannot be seen by writing.
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
