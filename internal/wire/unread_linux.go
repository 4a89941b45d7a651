package wire

import "golang.org/x/sys/unix"

// unread returns how many bytes either end of a pipe has not read. The request TIOCINQ is
// also called FIONREAD (pipe(7)).
func unread(fd uintptr) (int, error) { return unix.IoctlGetInt(int(fd), unix.TIOCINQ) }

// Readable reports whether something can be read from fd now.
func Readable(fd uintptr) bool {
	n, err := unread(fd)
	return err == nil && n > 0
}
