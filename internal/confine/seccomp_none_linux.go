//go:build !amd64 && !arm64

package confine

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// DeniedCalls is empty: there is no filter for this architecture.
func DeniedCalls() []CallGroup { return nil }

// newFilter fails: the numbers of this architecture are not written down.
func newFilter(shared) ([]unix.SockFilter, error) {
	return nil, fmt.Errorf("no filter for %s: %w", runtime.GOARCH, ErrUnsupported)
}
