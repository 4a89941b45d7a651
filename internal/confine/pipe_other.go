//go:build !linux

package confine

import (
	"fmt"
	"os"
)

// HostWritePipe creates a pipe that the host writes and the child reads. The child's end
// is blocking. The caller must close child once it was passed on, or the child never sees
// the end of file.
func HostWritePipe() (child, host *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("confine: pipe: %w", err)
	}
	r.Fd() // puts it into blocking mode
	return r, w, nil
}

// HostReadPipe creates a pipe that the child writes and the host reads; otherwise it is
// like [HostWritePipe].
func HostReadPipe() (child, host *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("confine: pipe: %w", err)
	}
	w.Fd() // puts it into blocking mode
	return w, r, nil
}
