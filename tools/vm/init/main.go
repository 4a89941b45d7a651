//go:build linux

// Command init is the first process of the virtual machine of tools/vm: it makes
// the system ready, runs one test, looks whether the test left anything, tells the
// verdict and switches the machine off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/bullpen-run/bullpen/tools/vm/errand"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == enterArgument {
		fmt.Fprintln(os.Stderr, "init:", enter(os.Args[2:])) // returns only when it fails
		os.Exit(125)
	}
	code, err := run()
	if err != nil {
		fmt.Println("init:", err)
		code = max(code, 1)
	}
	if err := tell(errand.Verdict, fmt.Sprintf("exit %d\n", code)); err != nil {
		fmt.Println("init:", err)
	}
	// Where this fails, the end of the first process ends the machine.
	fmt.Println("init: power off:", syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
}

// run does the errand. An error is of the machine, not of the test.
func run() (code int, err error) {
	if err := prepare(); err != nil {
		return 1, fmt.Errorf("preparing the system: %w", err)
	}
	text, err := os.ReadFile(errand.File)
	if err != nil {
		return 1, err
	}
	var e errand.Errand
	if err := json.Unmarshal(text, &e); err != nil {
		return 1, fmt.Errorf("%s: %w", errand.File, err)
	}
	out, err := os.OpenFile(errand.Output, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, drain(out), out.Close()) }()
	said, err := describe(e.Place)
	if err != nil {
		fmt.Fprintln(out, "The machine is not what it should be:", err)
		return 1, err
	}
	fmt.Fprintln(out, said)
	status, left, err := runTest(e, out)
	if err != nil {
		fmt.Fprintln(out, "The test could not be run:", err)
		return 1, err
	}
	code = status.ExitStatus()
	if status.Signaled() {
		fmt.Fprintln(out, "The test was ended by", status.Signal())
		code = 128 + int(status.Signal())
	}
	if left != nil {
		fmt.Fprintf(out, "FAIL: the test left this behind:\n%v\n", left)
		code = max(code, 1)
	}
	return code, nil
}

// tell writes a line to a serial port.
func tell(port, line string) error {
	f, err := os.OpenFile(port, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, drain(f), f.Close())
}

// drain waits until all is sent that was written to a serial port.
func drain(port *os.File) error {
	const tcsbrk = 0x5409 // with the argument 1 it is tcdrain(3)
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, port.Fd(), tcsbrk, 1)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}
