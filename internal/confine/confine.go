// Package confine starts, watches and ends child processes so that nothing
// outlives the host.
//
// A [Spawner] starts children that inherit the attributes of one [Profile]:
// priority, CPUs, a sandbox ([Strict]), and a PID namespace whose first
// process, the guard, ends with the host, however the host ends. The kernel
// then kills all that is in the namespace, also what detached itself with
// setsid. Where the rights for that are missing, [Spawner.OrphanProof] says
// so, and children get a parent-death signal, which reaches them but not what
// they have detached.
//
// A [Child] is waited for and signalled through a pidfd, never through a
// number that may be reused, and a waiting goroutine holds no thread.
// [Memory] is memory shared with a child. [HostWritePipe] and [HostReadPipe]
// make the pipes between host and child in the right modes.
//
// On systems other than Linux the same calls work with what package os has;
// what is missing there is refused with [ErrUnsupported], or said by
// OrphanProof.
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
	// ErrUnsupported is the error of what this system does not have. It is an
	// errors.ErrUnsupported.
	ErrUnsupported = fmt.Errorf("confine: not on this system: %w", errors.ErrUnsupported)
)

// closeGrace bounds how long Close waits for what it has killed. On a busy machine the
// kernel may take seconds to end a process.
const closeGrace = 30 * time.Second

// Profile is what all children of one Spawner inherit. The zero Profile
// changes nothing and guards nothing.
type Profile struct {
	// Nice is the priority, from -20 (first) to 19 (last), if NiceSet. It is
	// set before a child's first instruction. Where the kernel groups
	// sessions for scheduling (autogroup), the group gets it as well; without
	// that it would have no effect against the host, as each child is a
	// session.
	Nice    int
	NiceSet bool
	// CPUs are the numbers of the CPUs that children may run on. Empty: all.
	CPUs []int
	// Guard puts children into a PID namespace that dies with the host. It
	// needs CAP_SYS_ADMIN; without it, see [Spawner.OrphanProof].
	Guard bool
	// GuardAlone makes that guard one of this Spawner only, for one process
	// and one thread more. Otherwise all Spawners of the host share one, and
	// what a child has detached lives until the last of them is closed.
	GuardAlone bool
	// NoNewPrivs keeps children from gaining rights by running another
	// program, such as sudo. Linux only.
	NoNewPrivs bool
	// NoCore keeps children from leaving core files, and from being given to a
	// program that collects them. It is set just after the start. Linux only.
	NoCore bool
	// IOPriority is the children's, for disks. Linux only.
	IOPriority IOPriority
	// Strict puts each child into a sandbox. Nil: none. Linux only.
	Strict *Strict
}

// Spec says what to start.
type Spec struct {
	Path string   // the program; looked up in no list of folders
	Args []string // Args[0], the name, included; empty: just Path
	Env  []string // "key=value"; nil: the environment of the host
	Dir  string   // folder to start in; empty: that of the host
	// Files are the descriptors of the child: Files[i] becomes descriptor i,
	// nil becomes /dev/null. Descriptors 0 to 2 are always there. Everything
	// else is closed in the child: each start marks the descriptors of this
	// process close-on-exec, see [CloseOnExec].
	// The files stay the caller's, who may close them when Start returns;
	// their blocking mode is not changed. Make pipes by [HostWritePipe] and
	// [HostReadPipe]: the end of the child has to be in blocking mode.
	Files []*os.File
	// Temp is the child's private temporary folder: it exists and is empty,
	// and its path is absolute and without symbolic links. Under [Strict] a
	// file system in memory is mounted on it, for this child only, which goes
	// with the child; where there are no mount namespaces the child may write
	// to the folder itself. Without Strict it means nothing. Whoever wants a
	// program to use it puts it into Env.
	Temp string
	// Group is the control group in which the child is born; nil: that of the
	// host. It has to be kept until the child has been waited for.
	Group *Group
}

// Exit says how a child ended and what it used.
type Exit struct {
	Code   int            // exit code, or -1 when a signal ended it
	Signal syscall.Signal // what ended it, or 0
	// MaxRSS is the peak of resident memory in bytes, of the child or of the
	// largest of its waited-for descendants. 0: not known. Linux counts the
	// peak of the host into that of its children, so a peak below the host's
	// own at the start cannot be told; sample [RSS] to see those.
	MaxRSS int64
	CPU    time.Duration // user and system time, waited-for descendants included
}

// String says it for people: "exit code 3", "killed (signal 9)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%v (signal %d)", e.Signal, int(e.Signal))
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// check reports all faults of p that can be seen without trying.
func (p Profile) check() error {
	var faults []error
	if p.NiceSet && (p.Nice < -20 || p.Nice > 19) {
		faults = append(faults, fmt.Errorf("confine: nice value %d is not between -20 and 19", p.Nice))
	}
	for _, c := range p.CPUs {
		if c < 0 {
			faults = append(faults, fmt.Errorf("confine: CPU %d: CPUs are counted from 0", c))
		}
	}
	if p.IOPriority > IOIdle {
		faults = append(faults, fmt.Errorf("confine: there is no I/O priority %d", p.IOPriority))
	}
	return errors.Join(faults...)
}

// complete checks s and fills in what its zero values stand for.
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

// sandboxError is one of putting a thread into a sandbox, before a program is
// looked for.
type sandboxError struct{ err error }

func (e *sandboxError) Error() string { return "its sandbox: " + e.err.Error() }
func (e *sandboxError) Unwrap() error { return e.err }

// startError tells people why s could not be started.
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
			return fmt.Errorf("confine: start %s: the interpreter or loader that it names is missing: %w", s.Path, err)
		}
	}
	return fmt.Errorf("confine: start %s: %w", s.Path, err)
}
