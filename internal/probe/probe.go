// Package probe detects what this kernel and this container let a program do.
//
// Each feature is tried once, when it is first requested, and the result is kept for the
// life of the process: it does not change if the program later changes its user or its
// capabilities. Trying has no lasting effect: altered threads end, and created control
// groups are removed. All functions are safe for concurrent use. The first call of [All]
// takes a few milliseconds.
package probe

import "sync"

// Feature describes one ability of the system.
type Feature struct {
	Name   string // short and stable, such as "pidfd"
	OK     bool   // it works here, now, for this user
	Detail string // version and extent if OK, otherwise the reason, for people
	Lost   string // what Bullpen cannot do without it
}

// feature defines one probe; try returns OK and Detail.
type feature struct {
	name, lost string
	try        func() (ok bool, detail string)
}

// once returns a function that tries f at its first call and then returns the same
// result.
func once(f feature) func() Feature {
	return sync.OnceValue(func() Feature {
		ok, detail := f.try()
		return Feature{Name: f.name, OK: ok, Detail: detail, Lost: f.lost}
	})
}

var (
	kernel = once(feature{"kernel", "nothing by itself; the other results depend on it", tryKernel})
	pidfd  = once(feature{"pidfd",
		"worker processes: they are watched and signalled by pidfd, never by a process ID, which could be reused", tryPidfd})
	pidNamespace = once(feature{"pid-namespace",
		"the end of every descendant of a worker when the host is killed; a detached process would survive", tryPIDNamespace})
	memfd = once(feature{"memfd",
		"large payloads through shared memory; they use the pipe instead", tryMemfd})
	cgroupV2 = once(feature{"cgroup-v2",
		"hard limits of memory, processes and CPU time by cgroup v2", tryCgroupV2})
	cgroupV1 = once(feature{"cgroup-v1",
		"hard limits of memory, processes and CPU time by cgroup v1, if there is no v2", tryCgroupV1})
	cgroupKill = once(feature{"cgroup-kill",
		"killing a worker with all its descendants in one step through its cgroup", tryCgroupKill})
	landlock = once(feature{"landlock",
		"denying a worker files and ports that its profile does not name", tryLandlock})
	seccomp = once(feature{"seccomp",
		"denying a worker system calls that its profile does not name", trySeccomp})
	noNewPrivs = once(feature{"no-new-privs",
		"making sure that a worker gains no rights by running another program", tryNoNewPrivs})
	userNamespace = once(feature{"user-namespace",
		"the complete strict sandbox for users other than root; they get its best effort", tryUserNamespace})
	mountNamespace = once(feature{"mount-namespace",
		"a file system view for each worker with only the files that its sandbox names", tryMountNamespace})
	ipcNamespace = once(feature{"ipc-namespace",
		"denying workers in a sandbox the shared memory and message queues of their user", tryIPCNamespace})
	networkNamespace = once(feature{"network-namespace",
		"an empty network for each worker in a sandbox; a system-call filter blocks the Internet instead", tryNetworkNamespace})
	affinity = once(feature{"affinity",
		"binding workers to chosen CPUs", tryAffinity})
	nice = once(feature{"nice",
		"running workers below the priority of the host", tryNice})
)

// Kernel returns the name of the system and its release. It is always OK.
func Kernel() Feature { return kernel() }

// Pidfd reports whether a child can be waited for and signaled through a pidfd.
func Pidfd() Feature { return pidfd() }

// PIDNamespace reports whether a child can be put into a PID namespace of its own, whose
// processes die together.
func PIDNamespace() Feature { return pidNamespace() }

// Memfd reports whether sealed anonymous memory files can be created; Detail says whether
// a program can be executed from one.
func Memfd() Feature { return memfd() }

// CgroupV2 reports whether a cgroup v2 tree is mounted and a group can be created below
// this process's; Detail lists the available controllers.
func CgroupV2() Feature { return cgroupV2() }

// CgroupV1 reports whether a group can be created below this process's in at least one of
// the v1 controllers that limit something; Detail lists all of them.
func CgroupV1() Feature { return cgroupV1() }

// CgroupKill reports whether a group created below this process's has cgroup.kill.
func CgroupKill() Feature { return cgroupKill() }

// Landlock reports whether Landlock is enabled; Detail has its ABI version.
func Landlock() Feature { return landlock() }

// Seccomp reports whether system-call filters can be installed.
func Seccomp() Feature { return seccomp() }

// NoNewPrivs reports whether a thread can set no_new_privs, so that execve gives it no
// rights.
func NoNewPrivs() Feature { return noNewPrivs() }

// UserNamespace reports whether a child can have user and PID namespaces of its
// own with its user mapped to root inside.
func UserNamespace() Feature { return userNamespace() }

// MountNamespace reports whether a thread can have its own mounts and create new ones as
// sandboxes need it.
func MountNamespace() Feature { return mountNamespace() }

// IPCNamespace reports whether a thread can have IPC and UTS namespaces of its
// own.
func IPCNamespace() Feature { return ipcNamespace() }

// NetworkNamespace reports whether a thread can have a network namespace of its
// own.
func NetworkNamespace() Feature { return networkNamespace() }

// Affinity reports whether a thread can be bound to CPUs; Detail lists the allowed CPUs.
func Affinity() Feature { return affinity() }

// Nice reports whether the priority of a thread can be lowered; Detail says
// whether it can also be raised.
func Nice() Feature { return nice() }

// All tries every feature and returns the results in a fixed order, with those that
// matter most to Bullpen first.
func All() []Feature {
	return []Feature{
		Kernel(), Pidfd(), PIDNamespace(), Memfd(),
		CgroupV2(), CgroupV1(), CgroupKill(),
		NoNewPrivs(), Landlock(), Seccomp(),
		MountNamespace(), IPCNamespace(), NetworkNamespace(), UserNamespace(),
		Affinity(), Nice(),
	}
}
