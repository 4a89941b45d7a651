package broker

import (
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// failure remembers the first thing that went wrong for good.
type failure struct {
	failed chan struct{} // closed when err is set
	mu     sync.Mutex
	err    error // guarded by mu
}

func newFailure() *failure { return &failure{failed: make(chan struct{})} }

// set makes cause the failure, unless there is one, and returns the one that
// holds.
func (f *failure) set(cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("%w: %w", engine.ErrFailed, cause)
		close(f.failed)
	}
	return f.err
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
