package confine

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// withoutGains reports whether ForbidGains has succeeded.
var withoutGains atomic.Bool

// ForbidGains keeps this whole process, not only its children, from gaining rights by
// running another program ([Profile.NoNewPrivs]). It cannot be undone. A program that
// needs no such rights then starts its children faster: see thread.lend. ForbidGains
// returns an error if the program is linked with C.
func ForbidGains() error {
	for _, call := range [][2]uintptr{
		{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL},
		{unix.PR_SET_NO_NEW_PRIVS, 1},
	} {
		_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, call[0], call[1], 0, 0, 0, 0)
		noAmbient := call[0] == unix.PR_CAP_AMBIENT && errno == unix.EINVAL // before Linux 4.3
		if errno != 0 && !noAmbient {
			return fmt.Errorf("confine: forbidding this process to gain rights: %w", errno)
		}
	}
	withoutGains.Store(true)
	return nil
}

// lend finds out whether everything that the profile requires of a thread can be applied
// to it for a single start and then be undone. If so, children are started on the
// caller's thread. Passing a start to a separate thread is little work, but while
// children keep all CPUs busy, that thread often waits behind one of them, up to a
// millisecond. lend runs on a new thread, which has the attributes of the profile
// afterwards.
func (t *thread) lend() error {
	p := &t.profile
	if t.guard == nil || t.sandbox != nil || len(p.CPUs) > 0 || p.IOPriority != IONormal || p.NoNewPrivs && !withoutGains.Load() {
		return t.apply()
	}
	// The namespace of this thread: any other thread may just be lent.
	home, err := unix.Open("/proc/thread-self/ns/pid_for_children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return t.apply()
	}
	nice, err := niceness()
	if err = errors.Join(err, t.apply()); err == nil {
		if t.takeBack(nice, home) == nil {
			t.home = home
		}
		err = t.apply()
	}
	if t.home < 0 || err != nil {
		unix.Close(home)
	}
	return err
}

// onCaller starts a child on the calling thread, while nothing else runs on it.
func (t *thread) onCaller(s *start) started {
	t.lent.RLock()
	defer t.lent.RUnlock()
	select {
	case <-t.quit:
		return started{err: errThreadEnded}
	default:
	}
	runtime.LockOSThread()
	nice, err := niceness()
	if err == nil {
		err = t.apply()
	}
	var c *Child
	if err == nil {
		c, err = t.fork(s)
	}
	// This has been tried before. Should it fail, the thread stays locked to this
	// goroutine and ends with it.
	if t.takeBack(nice, t.home) == nil {
		runtime.UnlockOSThread()
	}
	return started{child: c, err: err}
}

// takeBack restores the nice value of the calling thread, and the namespace for its
// children.
func (t *thread) takeBack(nice, namespace int) error {
	if t.profile.NiceSet {
		// Raising the priority again needs a right.
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			return err
		}
	}
	return unix.Setns(namespace, unix.CLONE_NEWPID)
}

// niceness returns the nice value of the calling thread.
func niceness() (int, error) {
	v, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - v, err // the system call returns no negative numbers
}
