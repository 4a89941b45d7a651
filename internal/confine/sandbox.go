package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IOPriority orders the use of disks among processes.
type IOPriority uint8

const (
	// IONormal leaves the priority as it is.
	IONormal IOPriority = iota
	// IOLow is the last of those that get a share: best effort, level 7.
	IOLow
	// IOIdle gets what nobody else wants.
	IOIdle
)

// defaultTempSize is what Strict.TempSize 0 stands for.
const defaultTempSize = 256 << 20

// Strict keeps each child from files, processes, system calls and the network.
// What it uses, and keeps each from the other children too:
//
//   - no_new_privs, and no capabilities, also for root;
//   - a mount namespace in which there is nothing but [SystemFolders], Read and
//     Write, all of it read-only except Write; a private /dev/shm; and a /proc
//     that shows the processes of the child alone. What root alone may read in
//     /etc cannot be read (where the file system of /etc cannot map owners:
//     what is there when the Spawner is made);
//   - landlock, which asks for the same once more and, where the kernel has
//     it, keeps signals and abstract sockets inside;
//   - a filter of system calls, see [DeniedCalls];
//   - IPC and UTS namespaces and, unless Network, a network namespace in which
//     no interface is up, not even lo.
//
// With Profile.Guard children are in a PID namespace as well. A user without the
// right to make namespaces gets all of this in a user namespace, with
// Profile.Guard and where the system lets him make one; other users and groups
// than his own then show as nobody, and a start takes about twice as long. It does not keep
// a child from using up memory, processes or CPU time: see [Groups]. It keeps
// the descriptors in Spec.Files open, whatever they are.
type Strict struct {
	// Read are the files and folders that may be read and run besides
	// [SystemFolders]; see [ProgramPaths]. All have to exist.
	Read []string
	// Write are those that may also be written to, made and removed. A file
	// system that is mounted read-only stays so.
	Write []string
	// Network leaves the network as it is, abstract Unix sockets included.
	Network bool
	// TempSize is how many bytes the child's Spec.Temp may hold, and again
	// its /dev/shm. Both are memory. 0: 256 MiB.
	TempSize int64
	// ForkServer says that [Spawner.Prepare] and [Spawner.StartServer] are to be
	// used. They need the right to make namespaces without a user namespace.
	ForkServer bool
	// BestEffort leaves out what this system lacks, see [Spawner.Missing],
	// instead of refusing.
	BestEffort bool
}

// SystemFolders may be read and run by every child under [Strict], as far as
// they exist. Not among them are the folders of users and of what runs: /home,
// /root, /var, /tmp, /srv, /run. Besides, every child has /proc, and of /dev
// what each program expects: null, zero, full, random, urandom, tty, fd, shm.
func SystemFolders() []string {
	return []string{
		"/usr", "/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin", "/opt", "/etc", "/nix/store", "/gnu/store",
		// How many processors and how much memory there is.
		"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
	}
}

// CallGroup is a group of system calls that [Strict] denies.
type CallGroup struct {
	Name   string   // "mounts"
	Reason string   // why, for people
	Calls  []string // names of the calls, in brackets what is denied of them
}

// Prepared is what a process needs in order to put a child of its own under
// the [Strict] of a Spawner: a fork server cannot inherit it, or its own
// children would share what each is to have alone. After its fork the child
//
//   - enters each of Namespaces in their order by setns(fd, 0), having one
//     thread only; the last is the mount namespace, and sets root and working
//     folder to its root: chdir comes after it, and files outside of the
//     sandbox are opened before it;
//   - drops the capabilities from its bounding set (prctl PR_CAPBSET_DROP, all
//     that there are), then all others (capset);
//   - sets PR_SET_NO_NEW_PRIVS, restricts itself by landlock_restrict_self on
//     Ruleset, if it is not nil, and installs Filter, an array of struct
//     sock_filter, if it is not empty, by seccomp(SECCOMP_SET_MODE_FILTER).
type Prepared struct {
	Namespaces []*os.File
	Ruleset    *os.File
	Filter     []byte

	release func() // gives up the folder that Spec.Temp is mounted on; not nil
}

// Close closes the files. Unless handOver was called, it also ends the
// temporary folder: it comes after the child's end.
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

// handOver gives the caller what has to be called once, when the child has
// ended, and takes it from Close.
func (p *Prepared) handOver() (release func()) {
	release, p.release = p.release, func() {}
	return release
}

// complete reports all faults of s that can be seen in itself, and fills in what
// its zero values stand for.
func (s Strict) complete() (Strict, error) {
	var faults []error
	clean := func(paths []string, field string) []string {
		done := make([]string, 0, len(paths))
		for _, p := range paths {
			full, err := filepath.Abs(p)
			switch {
			case p == "" || strings.ContainsRune(p, 0) || err != nil:
				faults = append(faults, fmt.Errorf("confine: Strict.%s has %q, which is no path", field, p))
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

// missingError says that a profile cannot be kept.
func missingError(missing []string) error {
	return fmt.Errorf("confine: the sandbox cannot be kept here: %s; allow user namespaces, run as root or grant CAP_SYS_ADMIN and CAP_SYS_CHROOT, on a kernel that has the rest, or ask for best effort: %w",
		strings.Join(missing, "; "), errors.ErrUnsupported)
}
