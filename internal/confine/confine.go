// Package confine starts, watches and ends child processes so that no process outlives
// the host.
//
// A [Spawner] starts children with the attributes of one [Profile]: priority, CPUs, a
// sandbox ([Strict]), and a PID namespace. The first process of the namespace, the guard,
// ends with the host, however the host ends. The kernel then kills everything in the
// namespace, including processes that detached themselves with setsid. Without the rights
// for that, [Spawner.OrphanProof] returns an error, and children get a parent-death
// signal, which reaches them but not the processes they have detached.
//
// A [Child] is waited for and signaled through a pidfd, never through a number that may
// be reused, and a waiting goroutine holds no thread. [Memory] is memory shared with a
// child. [HostWritePipe] and [HostReadPipe] create the pipes between host and child in
// the right modes.
//
// On systems other than Linux the same calls use package os. What is missing there is
// refused with [ErrUnsupported], or reported by OrphanProof.
package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

var (
	// ErrClosed is the error of a Start on a closed Spawner.
	ErrClosed = errors.New("confine: the spawner is closed")
	// ErrUnsupported is the error for what this system does not support. It wraps
	// errors.ErrUnsupported.
	ErrUnsupported = fmt.Errorf("confine: not supported on this system: %w", errors.ErrUnsupported)
)

// closeGrace bounds how long Close waits for the processes it has killed. On a busy
// machine the kernel may take seconds to end one.
const closeGrace = 30 * time.Second

// Profile is the set of attributes shared by all children of a Spawner. The zero Profile
// changes nothing and has no guard.
type Profile struct {
	// Nice is the priority, from -20 (first) to 19 (last), if NiceSet. It is set before a
	// child's first instruction. If the kernel schedules by session (autogroup), the
	// session gets it too; otherwise it would have no effect against the host, as each
	// child is a session.
	Nice    int
	NiceSet bool
	// CPUs are the numbers of the CPUs that children may run on; empty means all.
	CPUs []int
	// Guard puts children into a PID namespace that dies with the host. It needs
	// CAP_SYS_ADMIN; without it, see [Spawner.OrphanProof].
	Guard bool
	// GuardAlone gives this Spawner a guard of its own, for one more process and one more
	// thread. Otherwise all Spawners of the host share one guard, and what a child has
	// detached lives until the last of them is closed.
	GuardAlone bool
	// NoNewPrivs keeps children from gaining rights by running another program, such as
	// sudo. Linux only.
	NoNewPrivs bool
	// NoCore prevents core files of children, and passing their core to a program that
	// collects them. It is set just after the start. Linux only.
	NoCore bool
	// IOPriority is the children's priority for disks. Linux only.
	IOPriority IOPriority
	// Strict puts each child into a sandbox; nil means none. Linux only.
	Strict *Strict
}

// Spec describes the process to start.
type Spec struct {
	Path string   // the program; it is not looked up in PATH
	Args []string // all arguments, including the name in Args[0]; empty: just Path
	Env  []string // "key=value"; nil: the host's environment
	Dir  string   // folder to start in; empty: the host's
	// Files are the descriptors of the child: Files[i] becomes descriptor i, nil becomes
	// /dev/null. Descriptors 0 to 2 always exist. All other descriptors are closed in the
	// child: each start marks the descriptors of this process close-on-exec, see
	// [CloseOnExec]. The files remain the caller's, who may close them when Start
	// returns; their blocking mode is not changed. Create pipes with [HostWritePipe] and
	// [HostReadPipe]: the child's end must be in blocking mode.
	Files []*os.File
	// Temp is the child's private temporary folder. It must exist and be empty, and its
	// path must be absolute and without symbolic links. With [Strict] a file system in
	// memory is mounted on it, for this child only, which disappears with the child;
	// without mount namespaces the child may write to the folder itself. Without Strict,
	// Temp has no effect. To make a program use it, also set it in Env.
	Temp string
	// Group is the control group in which the child starts; nil: the host's. It must be
	// kept until the child has been waited for.
	Group *Group
	// Network is the network of a child with [Strict].Loopback, which needs one; others
	// have none of their own. It must be kept until Start returns.
	Network *Network
}

// Exit is how a child ended and what it used.
type Exit struct {
	Code   int            // exit code, or -1 if a signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
	// MaxRSS is the peak of resident memory in bytes, of the child or of the largest of
	// its waited-for descendants; 0 if unknown. Linux counts the peak of the host into
	// that of its children, so a peak below the host's own at the start is not visible;
	// sample [RSS] for that.
	MaxRSS int64
	CPU    time.Duration // user and system time, including waited-for descendants
}

// String describes the exit for people: "exit code 3", "killed (signal 9)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%v (signal %d)", e.Signal, int(e.Signal))
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// check reports all faults of p that are visible without trying.
func (p Profile) check() error {
	var faults []error
	if p.NiceSet && (p.Nice < -20 || p.Nice > 19) {
		faults = append(faults, fmt.Errorf("confine: nice value %d is not between -20 and 19", p.Nice))
	}
	for _, c := range p.CPUs {
		if c < 0 {
			faults = append(faults, fmt.Errorf("confine: CPU %d: CPUs are numbered from 0", c))
		}
	}
	if p.IOPriority > IOIdle {
		faults = append(faults, fmt.Errorf("confine: unknown I/O priority %d", p.IOPriority))
	}
	return errors.Join(faults...)
}

// complete checks s and replaces zero values by their defaults.
func (s Spec) complete() (Spec, error) {
	if s.Path == "" {
		return s, errors.New("confine: Spec.Path is empty: name the program to start")
	}
	if len(s.Args) == 0 {
		s.Args = []string{s.Path}
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	if len(s.Files) < 3 {
		s.Files = append(append(make([]*os.File, 0, 3), s.Files...), make([]*os.File, 3-len(s.Files))...)
	}
	return s, nil
}

// sandboxError is an error of putting a thread into a sandbox, before the program is
// looked up.
type sandboxError struct{ err error }

func (e *sandboxError) Error() string { return "its sandbox: " + e.err.Error() }
func (e *sandboxError) Unwrap() error { return e.err }

// startError explains why s could not be started.
func startError(s Spec, err error) error {
	if _, ok := errors.AsType[*sandboxError](err); ok {
		return fmt.Errorf("confine: start %s: %w", s.Path, err)
	}
	if errors.Is(err, syscall.ENOENT) {
		if s.Dir != "" {
			if _, statErr := os.Stat(s.Dir); statErr != nil {
				return fmt.Errorf("confine: start %s: its folder: %w", s.Path, statErr)
			}
		}
		if _, statErr := os.Stat(s.Path); statErr == nil {
			return fmt.Errorf("confine: start %s: its interpreter or loader is missing: %w", s.Path, err)
		}
	}
	return fmt.Errorf("confine: start %s: %w", s.Path, err)
}
