//go:build !amd64 && !arm64

package confine

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// DeniedCalls returns nil: this architecture has no filter.
func DeniedCalls() []CallGroup { return nil }

// newFilter fails: the system call numbers of this architecture are not listed.
func newFilter(shared) ([]unix.SockFilter, error) {
	return nil, fmt.Errorf("no filter for %s: %w", runtime.GOARCH, ErrUnsupported)
}
