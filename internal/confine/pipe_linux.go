package confine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HostWritePipe creates a pipe that the host writes and the child reads. The host's end
// is nonblocking and waits in the runtime's poller, so deadlines work on it; the child's
// end is blocking. Neither is inherited except through [Spec.Files]. The caller must
// close child once it was passed on, or the child never sees the end of file.
func HostWritePipe() (child, host *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("confine: pipe: %w", err)
	}
	return ends(p[0], p[1])
}

// HostReadPipe creates a pipe that the child writes and the host reads; otherwise it is
// like [HostWritePipe].
func HostReadPipe() (child, host *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("confine: pipe: %w", err)
	}
	return ends(p[1], p[0])
}

func ends(child, host int) (*os.File, *os.File, error) {
	if err := unix.SetNonblock(host, true); err != nil {
		unix.Close(child)
		unix.Close(host)
		return nil, nil, fmt.Errorf("confine: pipe: %w", err)
	}
	return os.NewFile(uintptr(child), "child's end"), os.NewFile(uintptr(host), "host's end"), nil
}
