//go:build !linux && !unix && !windows

package confine

import (
	"os"
	"syscall"
)

// CloseOnExec does nothing: children get only the files that are listed for them.
func CloseOnExec() error { return nil }

func attributes(Profile) *syscall.SysProcAttr { return nil }

func afterStart(Profile, int) {}

func killGroup(int) {}

func exitOf(state *os.ProcessState) Exit {
	return Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
}
