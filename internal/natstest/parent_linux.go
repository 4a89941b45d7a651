package natstest

import (
	"os/exec"
	"syscall"
)

// endsWithUs has the system kill the process when the thread that starts it ends.
func endsWithUs(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
