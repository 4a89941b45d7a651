//go:build amd64 || arm64

package confine

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// seccompData is struct seccomp_data.
type seccompData struct {
	number, arch uint32
	args         [6]uint64
}

// run interprets a program as the kernel does.
func run(t testing.TB, program []unix.SockFilter, d seccompData) (action uint32, steps int) {
	t.Helper()
	memory := make([]byte, 64)
	binary.NativeEndian.PutUint32(memory[0:], d.number)
	binary.NativeEndian.PutUint32(memory[4:], d.arch)
	for i, a := range d.args {
		binary.NativeEndian.PutUint64(memory[16+8*i:], a)
	}
	var a uint32
	for at := 0; at < len(program); at++ {
		in := program[at]
		steps++
		met := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if in.K%4 != 0 || in.K > 60 {
				t.Fatalf("instruction %d loads from %d", at, in.K)
			}
			a = binary.NativeEndian.Uint32(memory[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K, steps
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			met = a == in.K
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			met = a >= in.K
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET:
			met = a&in.K != 0
		default:
			t.Fatalf("instruction %d has code %#x", at, in.Code)
		}
		if met {
			at += int(in.Jt)
		} else {
			at += int(in.Jf)
		}
	}
	t.Fatalf("the program runs out at %+v", d)
	return 0, 0
}

// errnoOfAction is what the caller gets; 0 for an allowed call.
func errnoOfAction(t testing.TB, action uint32) unix.Errno {
	t.Helper()
	switch {
	case action == unix.SECCOMP_RET_ALLOW:
		return 0
	case action&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		return unix.Errno(action & unix.SECCOMP_RET_DATA)
	}
	t.Fatalf("action %#x", action)
	return 0
}

func filter(t testing.TB, s shared) []unix.SockFilter {
	t.Helper()
	program, err := newFilter(s)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestFilterArguments(t *testing.T) {
	const high = 1 << 32 // the kernel does not look there, so it must not matter
	shut, open, bare := filter(t, shared{}), filter(t, shared{network: true}), filter(t, shared{interfaces: true})
	exposed := filter(t, shared{interfaces: true, keys: true, files: true})
	unseparated := filter(t, shared{network: true, keys: true, files: true})
	all := [][]unix.SockFilter{shut, open, bare, exposed, unseparated}
	checkFilters(t, []filterCase{
		{"fork", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, 0, all},
		{"thread", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_SETTLS}, 0, all},
		{"user namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, unix.EPERM, all},
		{"PID namespace", unix.SYS_CLONE, [6]uint64{high | unix.CLONE_NEWPID}, unix.EPERM, all},
		{"clone3", unix.SYS_CLONE3, [6]uint64{}, unix.ENOSYS, all},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, unix.EPERM, all},
		{"TIOCSTI, high bits", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCSTI}, unix.EPERM, all},
		{"TIOCLINUX", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, unix.EPERM, all},
		{"TCGETS", unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, 0, all},
		{"chmod 755", unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o755}, 0, all},
		{"chmod 4755", unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o4755}, unix.EPERM, all},
		{"fchmod 2755", unix.SYS_FCHMOD, [6]uint64{0, 0o2755}, unix.EPERM, all},
		{"open to read", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_RDONLY | unix.O_DIRECTORY, 0o6777}, 0, all},
		{"make 600", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o600}, 0, all},
		{"make 4755", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM, all},
		{"temporary 4755", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o4755}, unix.EPERM, all},
		{"Unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, 0, [][]unix.SockFilter{shut, open, bare, unseparated}},
		{"Unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, [][]unix.SockFilter{exposed}},
		{"shared memory", unix.SYS_SHMGET, [6]uint64{1, 4096}, 0, [][]unix.SockFilter{shut, open, bare}},
		{"shared memory", unix.SYS_SHMGET, [6]uint64{1, 4096}, unix.ENOSYS, [][]unix.SockFilter{exposed, unseparated}},
		{"queue", unix.SYS_MSGSND, [6]uint64{1}, unix.ENOSYS, [][]unix.SockFilter{exposed, unseparated}},
		{"queue by name", unix.SYS_MQ_OPEN, [6]uint64{}, unix.ENOSYS, [][]unix.SockFilter{exposed, unseparated}},
		{"Unix socket pair", unix.SYS_SOCKETPAIR, [6]uint64{high | unix.AF_UNIX, unix.SOCK_STREAM}, 0, all},
		{"kernel cryptography", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, unix.EAFNOSUPPORT, all},
		{"packets", unix.SYS_SOCKET, [6]uint64{high | unix.AF_PACKET}, unix.EAFNOSUPPORT, all},
		{"virtual machine's host", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, unix.EAFNOSUPPORT, [][]unix.SockFilter{shut, bare}},
		{"virtual machine's host", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, 0, [][]unix.SockFilter{open}},
		{"TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, 0, [][]unix.SockFilter{shut, open}},
		{"TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, [][]unix.SockFilter{bare}},
		{"multipath TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT, [][]unix.SockFilter{shut}},
		{"routes", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0, [][]unix.SockFilter{shut, open}},
		{"talk by netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_USERSOCK}, unix.EPROTONOSUPPORT, [][]unix.SockFilter{shut}},
	})
}

// filterCase is a call, and what programs make of it.
type filterCase struct {
	name     string
	number   uint32
	args     [6]uint64
	want     unix.Errno
	programs [][]unix.SockFilter
}

func checkFilters(t *testing.T, cases []filterCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, program := range c.programs {
				action, _ := run(t, program, seccompData{c.number, filterArch, c.args})
				if got := errnoOfAction(t, action); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestFilterOthers: what a call does to its caller is allowed, and to nobody else.
func TestFilterOthers(t *testing.T) {
	const high = 1 << 32
	all := [][]unix.SockFilter{filter(t, shared{}), filter(t, shared{network: true}), filter(t, shared{interfaces: true, keys: true, files: true})}
	checkFilters(t, []filterCase{
		{"own limit", unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_CPU}, 0, all},
		{"own limit, high bits", unix.SYS_PRLIMIT64, [6]uint64{high, unix.RLIMIT_CPU}, 0, all},
		{"another's limit", unix.SYS_PRLIMIT64, [6]uint64{7, unix.RLIMIT_CPU}, unix.EPERM, all},
		{"own affinity", unix.SYS_SCHED_SETAFFINITY, [6]uint64{0, 8}, 0, all},
		{"another's affinity", unix.SYS_SCHED_SETAFFINITY, [6]uint64{high | 7, 8}, unix.EPERM, all},
		{"own nice value", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 0, 5}, 0, all},
		{"nice value of the own group", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PGRP, 0, 5}, 0, all},
		{"another's nice value", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 7, 5}, unix.EPERM, all},
		{"nice value of the user", unix.SYS_SETPRIORITY, [6]uint64{high | unix.PRIO_USER, 0, 5}, unix.EPERM, all},
		{"own I/O priority", unix.SYS_IOPRIO_SET, [6]uint64{1, 0}, 0, all},
		{"I/O priority of the user", unix.SYS_IOPRIO_SET, [6]uint64{ioWhoUser, 0}, unix.EPERM, all},
		{"name of a thread", unix.SYS_PRCTL, [6]uint64{unix.PR_SET_NAME}, 0, all},
		{"core scheduling", unix.SYS_PRCTL, [6]uint64{unix.PR_SCHED_CORE, 1, 7}, unix.EPERM, all},
	})
}

// TestFilterNumbers runs each number there is, and more, through the filter.
func TestFilterNumbers(t *testing.T) {
	program := filter(t, shared{})
	denied := map[uint32]deniedCall{}
	named := 0
	for _, g := range deniedGroups(shared{}) {
		if g.name == "" || g.reason == "" {
			t.Errorf("a group without name or reason: %+v", g)
		}
		for _, c := range g.calls {
			denied[c.number] = c
			named++
		}
	}
	for group := range archCalls {
		if !slices.ContainsFunc(baseGroups(), func(g deniedGroup) bool { return g.name == group }) {
			t.Errorf("there is no group %q", group)
		}
	}
	if named != len(denied) {
		t.Error("a call is named twice")
	}
	longest := 0
	for number := range uint32(1000) {
		action, steps := run(t, program, seccompData{number: number, arch: filterArch})
		got := errnoOfAction(t, action)
		c, listed := denied[number]
		switch {
		case !listed && got != 0:
			t.Errorf("%d: %v, although nobody denies it", number, got)
		case listed && c.clauses[0].conditions == nil && got != c.clauses[0].errno:
			t.Errorf("%s: %v", c.name, got)
		}
		if got == 0 {
			longest = max(longest, steps)
		}
		if action, _ := run(t, program, seccompData{number: number, arch: filterArch ^ 1}); errnoOfAction(t, action) != unix.ENOSYS {
			t.Errorf("%d of another architecture is allowed", number)
		}
		if action, _ := run(t, program, seccompData{number: number + filterAlien, arch: filterArch}); errnoOfAction(t, action) != unix.ENOSYS {
			t.Errorf("%d of another table is allowed", number)
		}
	}
	t.Logf("%d instructions for %d calls; at most %d steps for an allowed call", len(program), named, longest)
	for _, needed := range []uint32{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EXECVE, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_FUTEX, unix.SYS_MMAP, unix.SYS_SETSID} {
		if _, ok := denied[needed]; ok {
			t.Errorf("nothing can run without call %d", needed)
		}
	}
	shown := 0
	for _, g := range DeniedCalls() {
		shown += len(g.Calls)
	}
	if shown != named {
		t.Errorf("DeniedCalls has %d calls, the filter %d", shown, named)
	}
}

func TestFilterRefused(t *testing.T) {
	if _, err := buildFilter(1, 1<<30, []deniedCall{{"one", 5, never}, {"other", 5, never}}); err == nil {
		t.Error("two calls of one number were taken")
	}
	var many []deniedCall
	for i := range uint32(300) {
		many = append(many, deniedCall{"call", 2 * i, []clause{{unix.Errno(i + 1), []condition{{0, equal, i}}}}})
	}
	if _, err := buildFilter(1, 1<<30, many); err == nil {
		t.Error("a program with jumps that are too long was built")
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(unix.SYS_CLONE), uint64(unix.CLONE_NEWUSER), uint64(0), uint64(0))
	f.Add(uint32(unix.SYS_SOCKET), uint64(unix.AF_NETLINK), uint64(3), uint64(2))
	f.Add(uint32(unix.SYS_OPENAT), uint64(1), uint64(unix.O_CREAT), uint64(0o4000))
	f.Add(uint32(100000), uint64(1), uint64(2), uint64(3))
	program := filter(f, shared{})
	clauses := map[uint32][]clause{}
	for _, g := range deniedGroups(shared{}) {
		for _, c := range g.calls {
			clauses[c.number] = c.clauses
		}
	}
	f.Fuzz(func(t *testing.T, number uint32, a, b, c uint64) {
		d := seccompData{number, filterArch, [6]uint64{a, b, c, a ^ b, b ^ c, a ^ c}}
		action, _ := run(t, program, d)
		want := unix.Errno(0)
		if number >= filterAlien {
			want = unix.ENOSYS
		}
		for _, one := range clauses[number] {
			met := true
			for _, q := range one.conditions {
				low := uint32(d.args[q.arg])
				met = met && map[operation]bool{anyBit: low&q.value != 0, equal: low == q.value, differs: low != q.value}[q.op]
			}
			if met {
				want = one.errno
				break
			}
		}
		if got := errnoOfAction(t, action); got != want {
			t.Errorf("%+v: got %v, want %v", d, got, want)
		}
	})
}
