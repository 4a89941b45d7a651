package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notAProgram is a path that execve refuses with ENOTDIR, an error that clone never
// returns. A start of it that fails so proves that the clone was allowed, and runs
// nothing.
const notAProgram = "/dev/null/nothing"

func tryKernel() (bool, string) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return true, "linux, release not known: " + err.Error()
	}
	return true, fmt.Sprintf("%s %s %s",
		unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
}

func tryPidfd() (bool, string) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false, needs("pidfd_open", "5.4", err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return false, needs("pidfd_send_signal", "5.4", err)
	}
	// This process is not its own child: ECHILD means that the kernel supports the call,
	// EINVAL that it cannot wait for a pidfd.
	err = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	if !errors.Is(err, unix.ECHILD) {
		return false, needs("waitid on a pidfd", "5.4", err)
	}
	return true, "open, signal and wait"
}

func tryPIDNamespace() (bool, string) {
	err := tryClone(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	switch {
	case err == nil:
		return true, "can be created"
	case errors.Is(err, unix.EPERM):
		return false, "creating one needs CAP_SYS_ADMIN: run as root or grant that capability"
	case errors.Is(err, unix.ENOSPC):
		return false, "the limit user.max_pid_namespaces or the depth of nesting is reached"
	case errors.Is(err, unix.EINVAL):
		return false, "this kernel was built without PID namespaces"
	}
	return false, "clone: " + err.Error()
}

func tryUserNamespace() (bool, string) {
	err := tryClone(&syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	switch {
	case err == nil:
		return true, "can be created, together with a PID namespace"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return false, "forbidden here (by a container's system-call filter, AppArmor or a sysctl): " + err.Error()
	case errors.Is(err, unix.ENOSPC):
		return false, "the limit user.max_user_namespaces is reached"
	}
	return false, "clone: " + err.Error()
}

// tryClone reports whether a child with these attributes can be made.
func tryClone(sys *syscall.SysProcAttr) error {
	_, err := syscall.ForkExec(notAProgram, []string{notAProgram}, &syscall.ProcAttr{Sys: sys})
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err == nil {
		return errors.New("a path below /dev/null could be executed")
	}
	return err
}

func tryMemfd() (bool, string) {
	fd, err := unix.MemfdCreate("bullpen-probe", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before 6.3 the kernel does not support NOEXEC_SEAL
		fd, err = unix.MemfdCreate("bullpen-probe", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return false, needs("memfd_create", "3.17", err)
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return false, "sealing failed: " + err.Error()
	}
	prog, err := unix.MemfdCreate("bullpen-probe", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	switch {
	case errors.Is(err, unix.EINVAL):
		return true, "sealable, executable"
	case err != nil:
		return true, "sealable, not executable (sysctl vm.memfd_noexec)"
	}
	unix.Close(prog)
	return true, "sealable, executable"
}

func tryLandlock() (bool, string) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return true, fmt.Sprintf("ABI %d", abi)
	case unix.EOPNOTSUPP:
		return false, "built in, but not enabled (kernel parameter lsm=)"
	}
	return false, needs("landlock", "5.13, built with it", errno)
}

func trySeccomp() (bool, string) {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return false, needs("seccomp filters", "4.14", errno)
	}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err == nil && mode == unix.SECCOMP_MODE_FILTER {
		return true, "filters can be added; this process already has one"
	}
	return true, "filters can be installed"
}

func tryNoNewPrivs() (bool, string) {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return false, needs("PR_SET_NO_NEW_PRIVS", "3.5", err)
	}
	if set == 1 {
		return true, "already set for this process"
	}
	return true, "may be set"
}

func tryAffinity() (ok bool, detail string) {
	onLostThread(func() {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			detail = "sched_getaffinity: " + err.Error()
			return
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			detail = "sched_setaffinity: " + err.Error()
			return
		}
		ok, detail = true, "allowed CPUs "+cpuList(&set)
	})
	return ok, detail
}

func tryNice() (ok bool, detail string) {
	onLostThread(func() {
		// The raw system call returns 1 (nice 19) to 40 (nice -20).
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			detail = "getpriority: " + err.Error()
			return
		}
		now := 20 - raw
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, min(now+1, 19)); err != nil {
			detail = "setpriority: " + err.Error()
			return
		}
		ok, detail = true, fmt.Sprintf("now %d; the priority can be lowered, ", now)
		if unix.Setpriority(unix.PRIO_PROCESS, 0, max(now-1, -20)) == nil {
			detail += "and raised"
		} else {
			detail += "but not raised (that needs CAP_SYS_NICE or a limit RLIMIT_NICE)"
		}
	})
	return ok, detail
}

// onLostThread runs f on an operating-system thread that ends with it, so that changes
// which f makes to its thread are lost. The caller waits for f.
func onLostThread(f func()) {
	done := make(chan struct{})
	// Ends after f; the caller waits for done. Ending the goroutine while it is locked
	// ends the thread, except the first one of the process: its attributes count as those
	// of the whole process, so it is left alone.
	run := func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			defer close(done)
			f()
			return
		}
		next := make(chan struct{})
		go func() {
			runtime.LockOSThread() // certainly another thread: the first is held below
			close(next)
			defer close(done)
			f()
		}()
		<-next
		runtime.UnlockOSThread()
	}
	go run()
	<-done
}

// needs returns that what failed, and since which kernel it is supported.
func needs(what, since string, err error) string {
	return fmt.Sprintf("%s: %v (it needs Linux %s; a container's system-call filter may also forbid it)", what, err, since)
}

// cpuList formats a set as "0-3,6 (5 CPUs)".
func cpuList(set *unix.CPUSet) string {
	text, n := "", 0
	for i := 0; i < len(set)*int(unsafe.Sizeof(set[0]))*8; i++ {
		if !set.IsSet(i) {
			continue
		}
		first := i
		for set.IsSet(i + 1) {
			i++
		}
		if text != "" {
			text += ","
		}
		text += fmt.Sprint(first)
		if i > first {
			text += fmt.Sprintf("-%d", i)
		}
		n += i - first + 1
	}
	return fmt.Sprintf("%s (%d)", text, n)
}
