package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Child is a started process, the leader of its own session and process group. All
// methods are safe for concurrent use.
type Child struct {
	pid   int
	pidfd int          // of file
	file  *os.File     // nonblocking; readable for the poller when the process has ended
	floor int64        // peak of the host at the start, in bytes: see Exit.MaxRSS
	after func(*Child) // called once, when reaped

	once  sync.Once     // the first caller waits, the others wait for it
	exit  Exit          // written in once
	err   error         // written in once
	ended chan struct{} // closed at the end of once

	mu     sync.Mutex  // held around every use of pid and pidfd
	reaped bool        // from then on pid and pidfd may be reused; guarded by mu
	nicer  *time.Timer // the next try of niceSession; guarded by mu
}

func newChild(pid, pidfd int, after func(*Child)) *Child {
	// Cannot fail on a new descriptor; if it did, waiting would only cost a thread.
	_ = unix.SetNonblock(pidfd, true)
	return &Child{
		pid: pid, pidfd: pidfd, file: os.NewFile(uintptr(pidfd), "pidfd"),
		floor: hostPeak(), after: after, ended: make(chan struct{}),
	}
}

// Pid returns the process's number as the host sees it. Inside a guard's PID namespace
// the process has another number.
func (c *Child) Pid() int { return c.pid }

// Signal sends sig to the process alone. It returns os.ErrProcessDone when
// the process has been waited for.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signalLocked(sig)
}

// signalLocked sends a signal to the process. c.mu is held.
func (c *Child) signalLocked(sig syscall.Signal) error {
	if c.reaped {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("confine: signal %v to process %d: %w", sig, c.pid, err)
	}
	return nil
}

// Kill sends SIGKILL to the process and to its process group. It returns
// os.ErrProcessDone when the process has been waited for.
func (c *Child) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		// Dying takes processor time too, and a process of low priority gets little on a
		// busy machine. Raising the priority may not be permitted.
		_ = unix.Setpriority(unix.PRIO_PGRP, c.pid, 0)
		c.hurrySessionLocked()
	}
	err := c.signalLocked(unix.SIGKILL)
	if !c.reaped {
		c.killGroupLocked()
	}
	return err
}

// Terminate asks the process and its process group to end, by SIGTERM. It
// returns os.ErrProcessDone when the process has been waited for.
func (c *Child) Terminate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	if err := unix.Kill(-c.pid, unix.SIGTERM); err == nil {
		return nil
	}
	return c.signalLocked(unix.SIGTERM) // it has not become a leader yet
}

// killGroupLocked kills what is left of the process group. Until the process is reaped,
// its number, and so the group's, is not reused. c.mu is held.
func (c *Child) killGroupLocked() {
	// Fails if no process is left, or if they have changed their user; in both cases
	// nothing is left to do here.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

// Ended reports whether the process has ended, even if Wait has not returned. It costs
// about a microsecond.
func (c *Child) Ended() bool { return c.hasEnded() }

// Wait waits until the process has ended, kills what is left of its process group, and
// returns how it ended. It holds a goroutine but no thread. An error means that the
// result could not be determined. Later calls return the same values.
func (c *Child) Wait() (Exit, error) {
	c.once.Do(c.await)
	return c.exit, c.err
}

// await runs in once.
func (c *Child) await() {
	conn, err := c.file.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool { return c.reap() })
	}
	if err != nil {
		// The poller does not support pidfds here: wait in a system call.
		for !c.reap() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, -1) // reap finds out
		}
	}
	_ = c.file.Close() // nothing was written that could be lost
	close(c.ended)
	c.after(c)
}

// reap reaps the process if it has ended, and reports whether it has.
func (c *Child) reap() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var info unix.Siginfo
	var used unix.Rusage
	err := waitExit(c.pidfd, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, &info, nil)
	if err == nil && info.Signo == 0 {
		return false
	}
	if err == nil {
		c.killGroupLocked() // before the number becomes free
		err = waitExit(c.pidfd, unix.WEXITED|unix.WNOHANG, &info, &used)
	}
	c.reaped = true
	if c.nicer != nil {
		c.nicer.Stop()
	}
	if err != nil {
		c.exit.Code = -1
		c.err = fmt.Errorf("confine: the exit status of process %d is lost (does this program wait for children elsewhere?): %w", c.pid, err)
		return true
	}
	c.exit = exitOf(&info, &used, c.floor)
	return true
}

// waitExit calls waitid on a pidfd, and retries after interruptions.
func waitExit(pidfd, options int, info *unix.Siginfo, used *unix.Rusage) error {
	for {
		err := unix.Waitid(unix.P_PIDFD, pidfd, info, options, used)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// childInfo is the part of siginfo_t that belongs to SIGCHLD.
type childInfo struct {
	_      [3]int32              // signo, errno, code
	_      [^uint(0) >> 63]int32 // only where pointers have 64 bits
	_      int32                 // pid
	_      uint32                // uid
	status int32
}

// exitOf translates the kernel's result.
func exitOf(info *unix.Siginfo, used *unix.Rusage, floor int64) Exit {
	const exited = 1 // CLD_EXITED; the others are ends by signal
	// The peak that exec passes on from the host is inexact by some pages per CPU.
	const blur = 1 << 20
	e := Exit{CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	status := int((*childInfo)(unsafe.Pointer(info)).status)
	if info.Code == exited {
		e.Code = status
	} else {
		e.Code, e.Signal = -1, syscall.Signal(status)
	}
	if peak := int64(used.Maxrss) * 1024; peak > floor+blur { //nolint:unconvert // 32 bits on some systems
		e.MaxRSS = peak
	}
	return e
}

// hostPeak returns the peak of resident memory of this process in bytes. exec passes it
// on to a child made with vfork.
func hostPeak() int64 {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return int64(used.Maxrss) * 1024 //nolint:unconvert // 32 bits on some systems
}
