package process

import (
	"errors"
	"fmt"
)

// Check returns every fault of c that [New] would find before it starts anything. Only
// New finds what this machine cannot do, such as a sandbox.
func (c Config) Check() error { return (&resolved{Config: c}).check() }

func (r *resolved) check() error {
	err := errors.Join(r.checkCommand(), r.checkSize(), r.checkTimes(), r.checkRest(), r.checkBounds(), r.checkSandbox())
	if err != nil {
		return fmt.Errorf("process: the configuration has faults:\n%w", err)
	}
	return nil
}
