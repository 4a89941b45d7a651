//go:build amd64 || arm64

package confine

import "golang.org/x/sys/unix"

// deniedGroup is a CallGroup as the filter needs it.
type deniedGroup struct {
	name, reason string
	calls        []deniedCall
}

var (
	never   = []clause{{errno: unix.EPERM}}
	unknown = []clause{{errno: unix.ENOSYS}}
)

// namespaceFlags are the flags of clone(2) that create a new namespace.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// setIDBits are the bits of a file's mode that give the rights of its owner or group to
// the process that executes it.
const setIDBits = unix.S_ISUID | unix.S_ISGID

// setID denies a call whose argument arg is a mode with such bits.
func setID(arg int) []clause {
	return []clause{{unix.EPERM, []condition{{arg, anyBit, setIDBits}}}}
}

// setIDOpen does the same for a call that has a mode only with some flags.
func setIDOpen(flags int) []clause {
	// Not all of O_TMPFILE: its O_DIRECTORY bit alone creates nothing.
	const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	return []clause{{unix.EPERM, []condition{{flags, anyBit, makes}, {flags + 1, anyBit, setIDBits}}}}
}

// others denies a call for any process or thread other than the caller, whose number in
// argument arg is 0. A filter does not know the numbers of the caller's threads.
func others(arg int) []clause { return []clause{{unix.EPERM, []condition{{arg, differs, 0}}}} }

// othersBut does the same for a call whose first argument says what the second one names.
// If that is user, the second names a user and means all of the user's processes.
func othersBut(user uint32) []clause {
	return append(others(1), clause{unix.EPERM, []condition{{0, equal, user}}})
}

// deniedGroups lists what the filter denies, by reason.
func deniedGroups(s shared) []deniedGroup {
	groups := append(baseGroups(), deniedGroup{
		"sockets", "other families than Unix and the Internet are attack surface, or lead to the host of a virtual machine",
		[]deniedCall{
			{"socket (families)", unix.SYS_SOCKET, families(s)},
			// A socket without a name leads to no other process.
			{"socketpair (families)", unix.SYS_SOCKETPAIR, []clause{families(shared{network: s.network, interfaces: s.interfaces})[0]}},
		},
	})
	if s.keys {
		groups = append(groups, deniedGroup{"keys of the user", "there is no IPC namespace: others of the user have the same memory, queues and semaphores", []deniedCall{
			{"shmget", unix.SYS_SHMGET, unknown}, {"shmat", unix.SYS_SHMAT, unknown}, {"shmctl", unix.SYS_SHMCTL, unknown},
			{"msgget", unix.SYS_MSGGET, unknown}, {"msgctl", unix.SYS_MSGCTL, unknown},
			{"msgsnd", unix.SYS_MSGSND, unknown}, {"msgrcv", unix.SYS_MSGRCV, unknown},
			{"semget", unix.SYS_SEMGET, unknown}, {"semctl", unix.SYS_SEMCTL, unknown},
			{"semop", unix.SYS_SEMOP, unknown}, {"semtimedop", unix.SYS_SEMTIMEDOP, unknown},
			{"mq_open", unix.SYS_MQ_OPEN, unknown}, {"mq_unlink", unix.SYS_MQ_UNLINK, unknown},
		}})
	}
	return groups
}

// ioWhoUser is IOPRIO_WHO_USER.
const ioWhoUser = 3

// families denies sockets. The first clause names the families that remain.
func families(s shared) []clause {
	var stay []uint32
	if s.network || !s.files {
		stay = append(stay, unix.AF_UNIX)
	}
	if s.network || !s.interfaces {
		stay = append(stay, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	if s.network {
		stay = append(stay, unix.AF_VSOCK)
	}
	other := clause{errno: unix.EAFNOSUPPORT}
	for _, family := range stay {
		other.conditions = append(other.conditions, condition{0, differs, family})
	}
	if s.network {
		return []clause{other}
	}
	// Children may share an empty network namespace; this keeps them from communicating
	// through it. Queries for interfaces and routes remain.
	talk := clause{unix.EPROTONOSUPPORT, []condition{{0, equal, unix.AF_NETLINK}, {2, differs, unix.NETLINK_ROUTE}}}
	// Landlock covers TCP only under its usual protocol number.
	multipath := clause{unix.EPROTONOSUPPORT, []condition{{2, equal, unix.IPPROTO_MPTCP}}}
	return []clause{other, talk, multipath}
}

// baseGroups are the groups that are always denied.
func baseGroups() []deniedGroup {
	groups := append(kernelGroups(), processGroups()...)
	for i := range groups {
		groups[i].calls = append(groups[i].calls, archCalls[groups[i].name]...)
	}
	return groups
}

// kernelGroups concern the machine and its kernel.
func kernelGroups() []deniedGroup {
	return []deniedGroup{
		{"mounts", "changes what files there are", []deniedCall{
			{"mount", unix.SYS_MOUNT, never}, {"umount2", unix.SYS_UMOUNT2, never},
			{"pivot_root", unix.SYS_PIVOT_ROOT, never}, {"chroot", unix.SYS_CHROOT, never},
			{"move_mount", unix.SYS_MOVE_MOUNT, never}, {"open_tree", unix.SYS_OPEN_TREE, never},
			{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, never}, {"mount_setattr", unix.SYS_MOUNT_SETATTR, never},
			{"fsopen", unix.SYS_FSOPEN, never}, {"fsconfig", unix.SYS_FSCONFIG, never},
			{"fsmount", unix.SYS_FSMOUNT, never}, {"fspick", unix.SYS_FSPICK, never},
			{"quotactl", unix.SYS_QUOTACTL, never}, {"quotactl_fd", unix.SYS_QUOTACTL_FD, never},
		}},
		{"tracing", "large and often attacked; sees more than the process itself", []deniedCall{
			{"bpf", unix.SYS_BPF, never}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN, never},
			{"fanotify_init", unix.SYS_FANOTIFY_INIT, never}, {"fanotify_mark", unix.SYS_FANOTIFY_MARK, never},
			{"syslog", unix.SYS_SYSLOG, never}, {"acct", unix.SYS_ACCT, never},
		}},
		{"machine", "replaces, extends or ends the running kernel", []deniedCall{
			{"kexec_load", unix.SYS_KEXEC_LOAD, never}, {"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, never},
			{"init_module", unix.SYS_INIT_MODULE, never}, {"finit_module", unix.SYS_FINIT_MODULE, never},
			{"delete_module", unix.SYS_DELETE_MODULE, never}, {"reboot", unix.SYS_REBOOT, never},
			{"swapon", unix.SYS_SWAPON, never}, {"swapoff", unix.SYS_SWAPOFF, never},
			{"sethostname", unix.SYS_SETHOSTNAME, never}, {"setdomainname", unix.SYS_SETDOMAINNAME, never},
			{"vhangup", unix.SYS_VHANGUP, never},
		}},
		{"clocks", "sets the clock of the whole machine", []deniedCall{
			{"settimeofday", unix.SYS_SETTIMEOFDAY, never}, {"clock_settime", unix.SYS_CLOCK_SETTIME, never},
			{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, never}, {"adjtimex", unix.SYS_ADJTIMEX, never},
		}},
		{"keys", "key rings belong to the user, not to the process", []deniedCall{
			{"add_key", unix.SYS_ADD_KEY, never}, {"request_key", unix.SYS_REQUEST_KEY, never}, {"keyctl", unix.SYS_KEYCTL, never},
		}},
		{"attacks", "is used by attacks on the kernel much more than by programs", []deniedCall{
			{"userfaultfd", unix.SYS_USERFAULTFD, never},
			{"io_uring_setup", unix.SYS_IO_URING_SETUP, never}, {"io_uring_enter", unix.SYS_IO_URING_ENTER, never},
			{"io_uring_register", unix.SYS_IO_URING_REGISTER, never},
		}},
		{"files by number", "opens files without looking at the folders they are in", []deniedCall{
			{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, never},
		}},
	}
}

// processGroups concern a process's own state, or another process's.
func processGroups() []deniedGroup {
	return []deniedGroup{
		{"namespaces", "a new user namespace lends capabilities, and with them most of the kernel to attack", []deniedCall{
			{"unshare", unix.SYS_UNSHARE, never}, {"setns", unix.SYS_SETNS, never},
			{"clone (new namespaces)", unix.SYS_CLONE, []clause{{unix.EPERM, []condition{{0, anyBit, namespaceFlags}}}}},
			// Its flags are in memory, which a filter cannot read; programs that find it
			// missing use clone.
			{"clone3", unix.SYS_CLONE3, unknown},
		}},
		{"other processes", "reads and changes other processes, around what the rest of the sandbox does", []deniedCall{
			{"ptrace", unix.SYS_PTRACE, never}, {"kcmp", unix.SYS_KCMP, never},
			{"process_vm_readv", unix.SYS_PROCESS_VM_READV, never}, {"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, never},
			{"process_madvise", unix.SYS_PROCESS_MADVISE, never}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD, never},
			{"migrate_pages", unix.SYS_MIGRATE_PAGES, never},
		}},
		{"neighbours", "ends, slows down or starves other processes of the user; for the calling thread, named by 0, it is allowed", []deniedCall{
			{"prlimit64 (others)", unix.SYS_PRLIMIT64, others(0)}, {"sched_setaffinity (others)", unix.SYS_SCHED_SETAFFINITY, others(0)},
			{"sched_setscheduler (others)", unix.SYS_SCHED_SETSCHEDULER, others(0)}, {"sched_setparam (others)", unix.SYS_SCHED_SETPARAM, others(0)},
			{"sched_setattr (others)", unix.SYS_SCHED_SETATTR, others(0)}, {"move_pages (others)", unix.SYS_MOVE_PAGES, others(0)},
			{"setpriority (others)", unix.SYS_SETPRIORITY, othersBut(unix.PRIO_USER)}, {"ioprio_set (others)", unix.SYS_IOPRIO_SET, othersBut(ioWhoUser)},
			{"prctl (PR_SCHED_CORE)", unix.SYS_PRCTL, []clause{{unix.EPERM, []condition{{0, equal, unix.PR_SCHED_CORE}}}}},
		}},
		{"terminals", "types for the user into the terminal of the host", []deniedCall{
			{"ioctl (TIOCSTI, TIOCLINUX, TIOCCONS)", unix.SYS_IOCTL, []clause{
				{unix.EPERM, []condition{{1, equal, unix.TIOCSTI}}},
				{unix.EPERM, []condition{{1, equal, unix.TIOCLINUX}}},
				{unix.EPERM, []condition{{1, equal, unix.TIOCCONS}}},
			}},
		}},
		{"set-user-ID", "a program left behind in a shared folder would lend the host's rights to other users", []deniedCall{
			{"fchmod (set-ID bits)", unix.SYS_FCHMOD, setID(1)}, {"fchmodat (set-ID bits)", unix.SYS_FCHMODAT, setID(2)},
			{"fchmodat2 (set-ID bits)", unix.SYS_FCHMODAT2, setID(2)}, {"mknodat (set-ID bits)", unix.SYS_MKNODAT, setID(2)},
			{"openat (set-ID bits)", unix.SYS_OPENAT, setIDOpen(2)},
			// Its flags are in memory too; programs use openat instead.
			{"openat2", unix.SYS_OPENAT2, unknown},
		}},
	}
}

// DeniedCalls lists the system calls that [Strict] denies on this system, for people.
// Most fail with EPERM, those that programs replace by an older one with ENOSYS, and
// sockets with EAFNOSUPPORT or EPROTONOSUPPORT. All others are allowed. Programs of
// another architecture than the host's have no system calls at all.
func DeniedCalls() []CallGroup {
	var list []CallGroup
	for _, g := range deniedGroups(shared{}) {
		shown := CallGroup{Name: g.name, Reason: g.reason}
		for _, c := range g.calls {
			shown.Calls = append(shown.Calls, c.name)
		}
		list = append(list, shown)
	}
	return list
}

// newFilter builds the filter of a Spawner; see deniedGroups.
func newFilter(s shared) ([]unix.SockFilter, error) {
	var calls []deniedCall
	for _, g := range deniedGroups(s) {
		calls = append(calls, g.calls...)
	}
	return buildFilter(filterArch, filterAlien, calls)
}
