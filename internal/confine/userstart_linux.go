package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stage starts a child in the guard's user namespace. The calling thread has
// the attributes of the profile.
func (t *thread) stage(s *start) (*Child, error) {
	pid, pidfd, err := t.runStage(&s.spec, s.files)
	if err != nil {
		return nil, err
	}
	if len(s.entry) > 0 {
		if err := s.attach(pid, pidfd); err != nil {
			return nil, err
		}
	}
	return s.adopt(pid, pidfd, nil), nil
}

// tryStage tests a start without running a program.
func (t *thread) tryStage() error {
	_, pidfd, err := t.runStage(nil, nil)
	if err != nil {
		return fmt.Errorf("confine: %w", &sandboxError{err})
	}
	defer unix.Close(pidfd)
	return waitExit(pidfd, unix.WEXITED, nil, nil)
}

// runStage runs a stage for spec; see sandbox.inUserNamespace.
func (t *thread) runStage(spec *Spec, files []uintptr) (pid, pidfd int, err error) {
	home, _ := unix.Getwd() // if empty, it is replaced
	script, err := t.sandbox.inUserNamespace(spec, len(files), home)
	if err != nil {
		return 0, -1, &sandboxError{err}
	}
	errs, talk, err := stageEnds()
	if err != nil {
		return 0, -1, &sandboxError{err}
	}
	defer unix.Close(errs[0])
	defer unix.Close(talk[0])
	given := append(append([]uintptr{}, files...), uintptr(errs[1]), uintptr(talk[1]), uintptr(t.guard.userns), uintptr(t.guard.pidns))
	ruleset := -1
	if t.sandbox.land != nil {
		if ruleset, err = t.sandbox.land.ruleset(t.sandbox.grants.rules()); err == nil {
			given = append(given, uintptr(ruleset))
		}
	}
	parent := 0
	if err == nil {
		err = withMemoryProgram(script.program(len(files)+stageErrors), len(given), func(path string) (err error) {
			parent, err = forkExec(path, []string{"bullpen-stage"}, &syscall.ProcAttr{Files: given})
			return err
		})
	}
	for _, fd := range []int{errs[1], talk[1], ruleset} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if err != nil {
		return 0, -1, &sandboxError{fmt.Errorf("its stage: %w", err)}
	}
	pid, pidfd, err = awaitStage(script, errs[0], talk[0])
	for {
		if _, waitErr := unix.Wait4(parent, nil, 0, nil); !errors.Is(waitErr, unix.EINTR) {
			return pid, pidfd, err // our child, which no other code knows
		}
	}
}

// stageEnds returns a pipe and a socket for a stage's reports: the host's ends first.
func stageEnds() (errs, talk [2]int, err error) {
	if err = unix.Pipe2(errs[:], unix.O_CLOEXEC); err != nil {
		return errs, talk, err
	}
	if talk, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		unix.Close(errs[0])
		unix.Close(errs[1])
	}
	return errs, talk, err
}

// awaitStage waits until the child runs its program, or returns why it does not.
func awaitStage(script *script, errs, talk int) (pid, pidfd int, err error) {
	pid, pidfd, err = readChild(talk)
	var report [stageErrorSize]byte
	n, readErr := readFull(errs, report[:])
	if n == 0 && readErr == nil {
		return pid, pidfd, err
	}
	if pidfd >= 0 {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // it also ends by itself
		_ = waitExit(pidfd, unix.WEXITED, nil, nil)
		unix.Close(pidfd)
	}
	if n < len(report) {
		return 0, -1, &sandboxError{errors.Join(errors.New("its stage sent a truncated error"), readErr)}
	}
	o, err := script.failure(report[:])
	if o.what == "" {
		return 0, -1, err
	}
	return 0, -1, &sandboxError{fmt.Errorf("%s: %w", o.what, err)}
}

// readChild reads the stage's report of the child, and fails without one.
func readChild(talk int) (pid, pidfd int, err error) {
	news, control := make([]byte, stageNewsSize), make([]byte, unix.CmsgSpace(stageNewsSize))
	for {
		n, rights, _, _, err := unix.Recvmsg(talk, news, control, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, -1, err
		case n < stageNewsSize:
			return 0, -1, &sandboxError{errors.New("its stage ended before it created the child")}
		}
		messages, err := unix.ParseSocketControlMessage(control[:rights])
		if err != nil || len(messages) != 1 {
			return 0, -1, &sandboxError{fmt.Errorf("its stage reported a child without a pidfd: %w", errors.Join(err, os.ErrInvalid))}
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return 0, -1, &sandboxError{fmt.Errorf("its stage reported a child without a pidfd: %w", errors.Join(err, os.ErrInvalid))}
		}
		return int(binary.NativeEndian.Uint32(news)), fds[0], nil
	}
}

// readFull reads into b until it is full or the file ends.
func readFull(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		k, err := unix.Read(fd, b[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, err
		case k == 0:
			return n, nil
		}
		n += k
	}
	return n, nil
}
