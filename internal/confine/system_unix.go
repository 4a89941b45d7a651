//go:build unix && !linux

package confine

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// attributes makes each child first of its session and process group.
func attributes(Profile) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// afterStart sets the priority. A child that has already ended needs none,
// and to raise it without the right to is not worth a worker.
func afterStart(p Profile, pid int) {
	if p.NiceSet {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, p.Nice)
	}
}

// killGroup kills what is left of the process group of a child. That nobody
// is left is as good.
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

// maxRSSUnit is what ru_maxrss is counted in.
func maxRSSUnit() int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return 1
	}
	return 1024
}
