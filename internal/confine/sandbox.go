package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IOPriority is the priority of a process for disks.
type IOPriority uint8

const (
	// IONormal leaves the priority as it is.
	IONormal IOPriority = iota
	// IOLow is the lowest priority that still gets a share: best effort, level 7.
	IOLow
	// IOIdle uses the disk only when no other process does.
	IOIdle
)

// defaultTempSize is used if Strict.TempSize is 0.
const defaultTempSize = 256 << 20

// Strict isolates each child from files, processes, system calls and the network, and
// from the other children. It uses:
//
//   - no_new_privs, and no capabilities, even for root;
//   - a mount namespace that contains only [SystemFolders], Read and Write, all of it
//     read-only except Write; a private /dev/shm; and a /proc that shows only the child's
//     processes. Files in /etc that only root can read are not readable (if the file
//     system of /etc cannot map owners: those that exist when the Spawner is created);
//   - Landlock, which enforces the same a second time and, if the kernel supports it,
//     confines signals and abstract sockets;
//   - a filter of system calls, see [DeniedCalls];
//   - IPC and UTS namespaces and, unless Network, a network namespace in which no
//     interface is up, not even lo.
//
// With Profile.Guard children are in a PID namespace too. A user without the right to
// create namespaces gets all of this in a user namespace, with Profile.Guard and if the
// system permits that. Users and groups other than his own are then shown as nobody, and
// a start takes about twice as long. Strict does not limit a child's memory, processes or
// CPU time: see [Groups]. It keeps the descriptors in Spec.Files open, whatever they are.
type Strict struct {
	// Read are the files and folders that may be read and executed besides
	// [SystemFolders]; see [ProgramPaths]. All of them must exist.
	Read []string
	// Write are those that may also be written to, created and removed. A file system
	// that is mounted read-only stays read-only.
	Write []string
	// Network gives access to the host's network, including abstract Unix sockets.
	Network bool
	// Loopback gives each child the network in Spec.Network in place of one without an
	// interface. It needs the right to create namespaces without a user namespace.
	Loopback bool
	// TempSize is how many bytes the child's Spec.Temp may hold, and the same for its
	// /dev/shm. Both are in memory. 0: 256 MiB.
	TempSize int64
	// ForkServer announces the use of [Spawner.Prepare] and [Spawner.StartServer]. They
	// need the right to create namespaces without a user namespace.
	ForkServer bool
	// BestEffort omits what this system does not support, see [Spawner.Missing], instead
	// of failing.
	BestEffort bool
}

// SystemFolders lists the folders that every child under [Strict] may read and execute,
// if they exist. It does not include the folders of users and of running services: /home,
// /root, /var, /tmp, /srv, /run. In addition every child has /proc, and the parts of /dev
// that programs expect: null, zero, full, random, urandom, tty, fd, shm.
func SystemFolders() []string {
	return []string{
		"/usr", "/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin", "/opt", "/etc", "/nix/store", "/gnu/store",
		// These tell how many processors and how much memory the machine has.
		"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
	}
}

// CallGroup is a group of system calls that [Strict] denies.
type CallGroup struct {
	Name   string   // "mounts"
	Reason string   // the reason, for people
	Calls  []string // names of the calls; in parentheses what is denied of them
}

// Prepared is what a process needs to put a child of its own under the [Strict] of a
// Spawner. A fork server cannot be under it itself, or its children would share what each
// of them should have alone. After its fork the child
//
//   - enters each of Namespaces in their order with setns(fd, 0), while it has only one
//     thread; the last is the mount namespace, which sets root and working folder to its
//     root, so chdir comes after it, and files outside of the sandbox are opened before it;
//   - drops all capabilities from its bounding set (prctl PR_CAPBSET_DROP), then all
//     others (capset);
//   - sets PR_SET_NO_NEW_PRIVS, restricts itself with landlock_restrict_self to Ruleset, if
//     it is not nil, and installs Filter, an array of struct sock_filter, if it is not
//     empty, with seccomp(SECCOMP_SET_MODE_FILTER).
type Prepared struct {
	Namespaces []*os.File
	Ruleset    *os.File
	Filter     []byte

	release func() // removes the folder on which Spec.Temp is mounted; not nil
}

// Close closes the files. Unless handOver was called, it also removes the temporary
// folder, so it must come after the child's end.
func (p *Prepared) Close() error {
	var errs []error
	for _, f := range append(p.Namespaces, p.Ruleset) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	p.Namespaces, p.Ruleset = nil, nil
	p.handOver()()
	return errors.Join(errs...)
}

// handOver returns a function that the caller must call once, when the child has ended,
// and that Close then no longer calls.
func (p *Prepared) handOver() (release func()) {
	release, p.release = p.release, func() {}
	return release
}

// complete reports all faults of s that are visible without trying, and replaces zero
// values by their defaults.
func (s Strict) complete() (Strict, error) {
	var faults []error
	clean := func(paths []string, field string) []string {
		done := make([]string, 0, len(paths))
		for _, p := range paths {
			full, err := filepath.Abs(p)
			switch {
			case p == "" || strings.ContainsRune(p, 0) || err != nil:
				faults = append(faults, fmt.Errorf("confine: Strict.%s has %q, which is not a path", field, p))
			case full == filepath.Dir(full):
				faults = append(faults, fmt.Errorf("confine: Strict.%s has %q: name the folders in it", field, p))
			default:
				done = append(done, full)
			}
		}
		return done
	}
	s.Read, s.Write = clean(s.Read, "Read"), clean(s.Write, "Write")
	if s.TempSize < 0 {
		faults = append(faults, fmt.Errorf("confine: Strict.TempSize %d is negative", s.TempSize))
	}
	if s.TempSize == 0 {
		s.TempSize = defaultTempSize
	}
	return s, errors.Join(faults...)
}

// missingError is the error for a profile that cannot be enforced.
func missingError(missing []string) error {
	return fmt.Errorf("confine: the strict sandbox is not possible here: %s; allow user namespaces, run as root or "+
		"grant CAP_SYS_ADMIN and CAP_SYS_CHROOT, on a kernel that has the rest, or use best effort: "+
		"%w",
		strings.Join(missing, "; "), errors.ErrUnsupported)
}
