package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// set gives the calling thread the priority p, which its children inherit.
func (p IOPriority) set() error {
	const (
		whoProcess            = 1
		classShift            = 13
		bestEffort, classIdle = 2, 3
		lowest                = 7
	)
	var value uintptr
	switch p {
	case IONormal:
		return nil
	case IOLow:
		value = bestEffort<<classShift | lowest
	case IOIdle:
		value = classIdle << classShift
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, value); errno != 0 {
		return fmt.Errorf("confine: I/O priority: %w", errno)
	}
	return nil
}
