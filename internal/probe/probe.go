// Package probe tells what this kernel and this container let a program do.
//
// Each feature is tried once, when it is first asked for, and the answer is
// kept for the life of the process: a program that changes its user or its
// capabilities later does not see the answer change. Trying has no lasting
// effect: threads that were altered are thrown away, control groups that
// were made are removed. Everything here may be called from many goroutines
// at once. The first call of [All] takes a few milliseconds.
package probe

import "sync"

// Feature is the answer about one ability of the system.
type Feature struct {
	Name   string // short and stable, such as "pidfd"
	OK     bool   // whether it can be used here, now, by this user
	Detail string // version and extent when OK, otherwise the reason, for people
	Lost   string // what Bullpen cannot do where it is missing
}

// feature describes one probe; try gives OK and Detail.
type feature struct {
	name, lost string
	try        func() (ok bool, detail string)
}

// once gives a function that tries f at its first call and then remembers.
func once(f feature) func() Feature {
	return sync.OnceValue(func() Feature {
		ok, detail := f.try()
		return Feature{Name: f.name, OK: ok, Detail: detail, Lost: f.lost}
	})
}

var (
	kernel = once(feature{"kernel", "nothing by itself; the other answers depend on it", tryKernel})
	pidfd  = once(feature{"pidfd",
		"worker processes: they are watched and signalled by pidfd, never by a number that may be reused", tryPidfd})
	pidNamespace = once(feature{"pid-namespace",
		"the end of every descendant of a worker when the host is killed; a process that detached itself would live on", tryPIDNamespace})
	memfd = once(feature{"memfd",
		"large payloads through shared memory; they go through the pipe instead", tryMemfd})
	cgroupV2 = once(feature{"cgroup-v2",
		"hard limits of memory, processes and CPU time by cgroup v2", tryCgroupV2})
	cgroupV1 = once(feature{"cgroup-v1",
		"hard limits of memory, processes and CPU time by cgroup v1, where there is no v2", tryCgroupV1})
	cgroupKill = once(feature{"cgroup-kill",
		"killing a worker with all its descendants in one step through its cgroup", tryCgroupKill})
	landlock = once(feature{"landlock",
		"keeping a worker away from files and ports that its profile does not name", tryLandlock})
	seccomp = once(feature{"seccomp",
		"keeping a worker away from system calls that its profile does not name", trySeccomp})
	noNewPrivs = once(feature{"no-new-privs",
		"making sure that a worker gains no rights by running another program", tryNoNewPrivs})
	userNamespace = once(feature{"user-namespace",
		"the whole of the sandbox strict for a user who is not root; the user gets its best effort", tryUserNamespace})
	mountNamespace = once(feature{"mount-namespace",
		"a view of the files for each worker in which there is nothing but what its sandbox names", tryMountNamespace})
	ipcNamespace = once(feature{"ipc-namespace",
		"keeping workers in a sandbox away from the shared memory and message queues of their user", tryIPCNamespace})
	networkNamespace = once(feature{"network-namespace",
		"an empty network for each worker in a sandbox; a system-call filter keeps it from the Internet instead", tryNetworkNamespace})
	affinity = once(feature{"affinity",
		"binding workers to chosen CPUs", tryAffinity})
	nice = once(feature{"nice",
		"running workers below the priority of the host", tryNice})
)

// Kernel names the system and its release. It is always OK.
func Kernel() Feature { return kernel() }

// Pidfd reports whether a child can be waited for and signalled by a pidfd.
func Pidfd() Feature { return pidfd() }

// PIDNamespace reports whether a child can be put into a PID namespace of its
// own, which dies as one.
func PIDNamespace() Feature { return pidNamespace() }

// Memfd reports whether sealed anonymous memory files can be made; Detail says
// whether a program may be run from one.
func Memfd() Feature { return memfd() }

// CgroupV2 tells whether a cgroup v2 tree is mounted and a group can be made
// below the own one; Detail lists the controllers there are.
func CgroupV2() Feature { return cgroupV2() }

// CgroupV1 tells whether a group can be made below the own one in at least
// one of the v1 controllers that limit something; Detail lists all of them.
func CgroupV1() Feature { return cgroupV1() }

// CgroupKill reports whether a group made below the own one has cgroup.kill.
func CgroupKill() Feature { return cgroupKill() }

// Landlock reports whether landlock is on; Detail has its ABI version.
func Landlock() Feature { return landlock() }

// Seccomp reports whether system-call filters can be installed.
func Seccomp() Feature { return seccomp() }

// NoNewPrivs reports whether a thread can give up gaining rights by execve.
func NoNewPrivs() Feature { return noNewPrivs() }

// UserNamespace reports whether a child can have user and PID namespaces of its
// own with its user mapped to root inside.
func UserNamespace() Feature { return userNamespace() }

// MountNamespace reports whether a thread can have mounts of its own, and make
// new ones the way sandboxes need it.
func MountNamespace() Feature { return mountNamespace() }

// IPCNamespace reports whether a thread can have IPC and UTS namespaces of its
// own.
func IPCNamespace() Feature { return ipcNamespace() }

// NetworkNamespace reports whether a thread can have a network namespace of its
// own.
func NetworkNamespace() Feature { return networkNamespace() }

// Affinity reports whether a thread may be bound to CPUs; Detail lists the CPUs
// that are allowed.
func Affinity() Feature { return affinity() }

// Nice reports whether the priority of a thread can be lowered; Detail says
// whether it can also be raised.
func Nice() Feature { return nice() }

// All tries every feature and returns the answers in a fixed order, the ones
// that matter most to Bullpen first.
func All() []Feature {
	return []Feature{
		Kernel(), Pidfd(), PIDNamespace(), Memfd(),
		CgroupV2(), CgroupV1(), CgroupKill(),
		NoNewPrivs(), Landlock(), Seccomp(),
		MountNamespace(), IPCNamespace(), NetworkNamespace(), UserNamespace(),
		Affinity(), Nice(),
	}
}
