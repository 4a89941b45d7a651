package confine

import (
	"fmt"
	"os"
)

// withDescriptors calls f with the descriptors of files, and null for nil files. The
// descriptors stay open until f returns, and keep their blocking mode, which os.File.Fd
// would change.
func withDescriptors(files []*os.File, null int, fds []uintptr, f func([]uintptr) error) error {
	i := len(fds)
	if i == len(files) {
		return f(fds)
	}
	if files[i] == nil {
		return withDescriptors(files, null, append(fds, uintptr(null)), f)
	}
	conn, err := files[i].SyscallConn()
	if err != nil {
		return fmt.Errorf("confine: file for descriptor %d: %w", i, err)
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = withDescriptors(files, null, append(fds, fd), f) }); err != nil {
		return fmt.Errorf("confine: file for descriptor %d: %w", i, err)
	}
	return inner
}
