package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// emulator is the program that runs the machine.
const emulator = "qemu-system-x86_64"

// machine is one virtual machine, which runs once.
type machine struct {
	kernel, files string // image of the kernel, archive of the file system
	accel         string // kvm or tcg
	cpus, memory  int    // memory in MiB
	limit         time.Duration
}

// parameters of the kernel: nothing of cgroup v1, landlock on, and an end at once
// when the kernel or the first process dies.
const parameters = "console=ttyS0 quiet panic=-1 oops=panic rdinit=/init cgroup_no_v1=all lsm=landlock,lockdown,yama,integrity,apparmor,bpf"

// command returns the command of the emulator. It writes the console, the output
// of the test and the verdict to its descriptors 3, 4 and 5.
func (m *machine) command(ctx context.Context) *exec.Cmd {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-accel", m.accel, "-cpu", "max", "-smp", strconv.Itoa(m.cpus), "-m", strconv.Itoa(m.memory),
		"-kernel", m.kernel, "-initrd", m.files, "-append", parameters,
	}
	for port := range 3 {
		args = append(args, "-chardev", fmt.Sprintf("file,id=port%d,path=/dev/fd/%d", port, port+3), "-serial", fmt.Sprintf("chardev:port%d", port))
	}
	cmd := exec.CommandContext(ctx, emulator, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run boots the machine, copies what the test prints to out, and returns the exit
// status of the test. When the machine does not come to a verdict, the error says
// so and what the kernel said is written to log. The end of ctx ends the machine.
func (m *machine) run(ctx context.Context, out, log io.Writer) (code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, fmt.Errorf("the machine did not end within %v", m.limit))
	defer cancel()

	// The emulator is killed when the thread ends that started it, so that it does
	// not outlive this process: the thread must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var console, verdict bytes.Buffer
	cmd := m.command(ctx)
	cmd.Stderr = log
	wait, err := collect(cmd, &console, out, &verdict)
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, errors.Join(err, wait())
	}
	failure := errors.Join(cmd.Wait(), wait())
	code, err = parseVerdict(verdict.String())
	if err == nil {
		return code, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		failure = cause
	}
	fmt.Fprintf(log, "What the kernel said:\n%s\n", strings.ReplaceAll(console.String(), "\r\n", "\n"))
	return 1, errors.Join(err, failure)
}

// collect gives cmd one pipe for each of the writers, as its descriptors from 3
// on, and copies from them. The caller starts cmd, and then calls wait, which
// closes the pipes here and returns when cmd has closed its ends.
func collect(cmd *exec.Cmd, to ...io.Writer) (wait func() error, err error) {
	var copying sync.WaitGroup
	failures := make([]error, len(to)) // each written by one goroutine
	wait = func() error {
		var closing []error
		for _, f := range cmd.ExtraFiles {
			closing = append(closing, f.Close())
		}
		copying.Wait()
		return errors.Join(append(closing, failures...)...)
	}
	for i, w := range to {
		r, child, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, wait())
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, child)
		copying.Go(func() { // ends when the last writer closes its end; wait waits
			_, copyErr := io.Copy(w, r)
			failures[i] = errors.Join(copyErr, r.Close())
		})
	}
	return wait, nil
}

// parseVerdict reads the line that the first process of the machine ends with.
func parseVerdict(text string) (code int, err error) {
	status, ok := strings.CutPrefix(strings.TrimSpace(text), "exit ")
	if !ok {
		return 0, errors.New("the machine ended without a verdict: it crashed or was stopped")
	}
	code, err = strconv.Atoi(status)
	if err != nil {
		return 0, fmt.Errorf("verdict %q: %w", text, err)
	}
	return code, nil
}
