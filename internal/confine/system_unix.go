//go:build unix && !linux

package confine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// CloseOnExec marks all descriptors of this process except the standard ones
// close-on-exec.
func CloseOnExec() error {
	const firstOther = 3
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("confine: closing the descriptors of the host: %w", err)
	}
	for _, one := range all {
		if fd, err := strconv.Atoi(one.Name()); err == nil && fd >= firstOther {
			syscall.CloseOnExec(fd) // one that was closed meanwhile needs no mark
		}
	}
	return nil
}

// attributes makes each child the leader of its own session and process group.
func attributes(Profile) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// afterStart sets the priority. It ignores errors: the child may have ended, and a
// missing right to raise the priority is not worth failing a worker.
func afterStart(p Profile, pid int) {
	if p.NiceSet {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, p.Nice)
	}
}

// killGroup kills what is left of the process group of a child. It is no error if no
// process is left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// terminateGroup asks the process group of a child to end.
func terminateGroup(pid int) bool { return syscall.Kill(-pid, syscall.SIGTERM) == nil }

func exitOf(state *os.ProcessState) Exit {
	e := Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Code, e.Signal = -1, status.Signal()
	}
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSS = int64(used.Maxrss) * maxRSSUnit()
	}
	e.CPU = e.CPU.Round(time.Microsecond)
	return e
}

// maxRSSUnit returns the unit of ru_maxrss in bytes.
func maxRSSUnit() int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return 1
	}
	return 1024
}
