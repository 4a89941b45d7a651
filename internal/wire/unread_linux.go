package wire

import "golang.org/x/sys/unix"

// TIOCINQ, also called FIONREAD, tells for either end of a pipe what has not been read (pipe(7)).
func unread(fd uintptr) (int, error) { return unix.IoctlGetInt(int(fd), unix.TIOCINQ) }

// Readable reports whether something can be read from fd now.
func Readable(fd uintptr) bool {
	n, err := unread(fd)
	return err == nil && n > 0
}
