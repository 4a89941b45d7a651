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

// Child is one started process, first of its own session and process group.
// All methods may be called from many goroutines at once.
type Child struct {
	pid   int
	pidfd int          // of file
	file  *os.File     // nonblocking; readable for the poller when the process has ended
	floor int64        // peak of the host at the start, in bytes: see Exit.MaxRSS
	after func(*Child) // called once, when reaped

	once  sync.Once     // who comes first waits, the others for him
	exit  Exit          // written in once
	err   error         // written in once
	ended chan struct{} // closed at the end of once

	mu     sync.Mutex  // held around every use of pid and pidfd
	reaped bool        // +checklocks:mu; from then on both may belong to others
	nicer  *time.Timer // +checklocks:mu; the next try of niceSession
}

func newChild(pid, pidfd int, after func(*Child)) *Child {
	// Cannot fail on a descriptor just made; if it did, waiting would cost a
	// thread and nothing else.
	_ = unix.SetNonblock(pidfd, true)
	return &Child{
		pid: pid, pidfd: pidfd, file: os.NewFile(uintptr(pidfd), "pidfd"),
		floor: hostPeak(), after: after, ended: make(chan struct{}),
	}
}

// Pid is the process's number as the host sees it. Inside a guard's PID
// namespace it has another one of its own.
func (c *Child) Pid() int { return c.pid }

// Signal sends sig to the process alone. It returns os.ErrProcessDone when
// the process has been waited for.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signalLocked(sig)
}

// +checklocks:c.mu
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
		// To die takes processor time as well, of which a low priority gets little on
		// a busy machine. Not everybody may raise it.
		_ = unix.Setpriority(unix.PRIO_PGRP, c.pid, 0)
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

// killGroupLocked reaches what is left of the process group. As long as the
// process is not reaped its number, and so the group's, belongs to nobody else.
//
// +checklocks:c.mu
func (c *Child) killGroupLocked() {
	// Fails if nobody is left, or for those who have changed their user;
	// neither leaves anything to do here.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

// Ended reports whether the process has ended, also when Wait has not seen it yet.
// It costs about a microsecond.
func (c *Child) Ended() bool { return c.hasEnded() }

// Wait waits until the process has ended, kills what is left of its process
// group, and says how it ended. Waiting holds a goroutine but no thread. The
// error is not about how it ended, but that it could not be found out. Later
// calls return the same again.
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
		// The poller does not take pidfds here: wait in a system call.
		for !c.reap() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, -1) // reap finds out
		}
	}
	_ = c.file.Close() // nothing was written that could be lost
	close(c.ended)
	c.after(c)
}

// reap reaps the process if it has ended, and tells whether it has.
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
		c.err = fmt.Errorf("confine: how process %d ended is lost (does something else in this program wait for any child?): %w", c.pid, err)
		return true
	}
	c.exit = exitOf(&info, &used, c.floor)
	return true
}

// waitExit is waitid on a pidfd, interruptions left out.
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

// exitOf translates what the kernel says.
func exitOf(info *unix.Siginfo, used *unix.Rusage, floor int64) Exit {
	const exited = 1 // CLD_EXITED; the others are ends by signal
	// The peak that exec hands on from the host is read with an error of some
	// pages for each CPU.
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

// hostPeak is the peak of resident memory of this process in bytes. Exec
// hands it on to a child made with vfork.
func hostPeak() int64 {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return int64(used.Maxrss) * 1024 //nolint:unconvert // 32 bits on some systems
}
