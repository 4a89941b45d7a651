package confine

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstOther is the first descriptor behind the standard ones, which a child
// gets anew in any case.
const firstOther = 3

// forkExec is syscall.ForkExec for a child that gets attr.Files and nothing
// else. By itself that closes only what was opened with O_CLOEXEC; libraries in
// C, and who has started the host, leave other descriptors open.
func forkExec(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if err := CloseOnExec(); err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, args, attr)
}

// CloseOnExec marks all descriptors of this process but the standard ones
// close-on-exec. It takes less than a microsecond, before Linux 5.11 one for
// each descriptor.
func CloseOnExec() error {
	err := unix.CloseRange(firstOther, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		err = markDescriptors()
	}
	if err != nil {
		return fmt.Errorf("confine: closing the descriptors of the host: %w", err)
	}
	return nil
}

// markDescriptors is CloseOnExec for kernels that do not know the call for it.
func markDescriptors() error {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return markNumbers()
	}
	defer unix.Close(dir)
	buffer := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(dir, buffer)
		if err != nil {
			return fmt.Errorf("listing them: %w", err)
		}
		if n == 0 {
			return nil
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			if fd, err := strconv.Atoi(name); err == nil && fd >= firstOther {
				syscall.CloseOnExec(fd) // one that was closed meanwhile needs it no longer
			}
		}
	}
}

// markNumbers is markDescriptors where there is no /proc, or one of a sandbox:
// it takes each number that a descriptor may have.
func markNumbers() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := firstOther; fd < int(min(limit.Cur, 1<<20)); fd++ {
		syscall.CloseOnExec(fd) // those that are not open need nothing
	}
	return nil
}
