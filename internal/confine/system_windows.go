package confine

import (
	"os"
	"syscall"
)

// Priority classes of CreateProcess.
const (
	idlePriority        = 0x40
	belowNormalPriority = 0x4000
	normalPriority      = 0x20
	aboveNormalPriority = 0x8000
)

// CloseOnExec does nothing: children get only the files that are listed for them.
func CloseOnExec() error { return nil }

// attributes translates the nice value to a priority class, and makes each child the
// leader of its process group.
func attributes(p Profile) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	switch {
	case !p.NiceSet:
	case p.Nice >= 15:
		sys.CreationFlags |= idlePriority
	case p.Nice > 0:
		sys.CreationFlags |= belowNormalPriority
	case p.Nice == 0:
		sys.CreationFlags |= normalPriority
	default:
		sys.CreationFlags |= aboveNormalPriority
	}
	return sys
}

func afterStart(Profile, int) {}

// killGroup does nothing: this system does not kill process groups.
func killGroup(int) {}

// terminateGroup returns false: this system has no way to ask.
func terminateGroup(int) bool { return false }

func exitOf(state *os.ProcessState) Exit {
	return Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
}
