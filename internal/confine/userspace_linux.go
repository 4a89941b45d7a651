package confine

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A user other than root can create namespaces only inside a user namespace, which no
// thread of the host can enter. So a stage starts each child of such a user: it enters
// the guard's user and PID namespaces, makes the child, as a child of the host, reports
// it to the host, and ends. The child is still a stage: it creates its own view, applies
// Landlock and the filter to itself, and becomes the program.

// The descriptors of a stage, after those of its child.
const (
	stageErrors = iota
	stageTalk   // where it reports the child
	stageUsers  // the user namespace of the guard
	stagePIDs   // its PID namespace
	stageRules  // the Landlock ruleset; the last, as it may be missing
)

// stageNewsSize is the size of a stage's report of a child: the child's number. A control
// message carries its pidfd.
const stageNewsSize = 4

// inUserNamespace builds the script for a child of b, which has files descriptors and
// after them the descriptors above, with the working folder home if spec names none.
// Without spec the script does everything except running a program.
func (b *sandbox) inUserNamespace(spec *Spec, files int, home string) (*script, error) {
	s := newScript()
	if s == nil {
		return nil, ErrUnsupported
	}
	temp := ""
	if spec != nil {
		temp = spec.Temp
	}
	own := func(n int) uint64 { return uint64(files + n) }
	parent := s.birth(own(stageUsers), own(stagePIDs))
	s.call("a session of its own", unix.SYS_SETSID)
	flags := uint64(unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if !b.strict.Network {
		flags |= unix.CLONE_NEWNET
	}
	s.call("namespaces", unix.SYS_UNSHARE, flags)
	// From here on the lowest free descriptor is known, as no other code opens any.
	free := own(stageRules)
	if b.land != nil {
		free++
	}
	s.view(b, free, temp)
	s.home(spec, home, temp)
	if err := s.restrict(b, own(stageRules), free, temp); err != nil {
		return nil, err
	}
	for fd := own(0); fd < free; fd++ {
		s.call("closing descriptors", unix.SYS_FCNTL, fd, unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if len(b.filter) > 0 {
		program := s.memory(filterBytes(b.filter))
		prog := s.memory(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(len(b.filter))), uint64(program)))
		s.call("seccomp filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uint64(prog))
	}
	if spec == nil {
		s.call("ending", unix.SYS_EXIT_GROUP, 0)
	} else {
		s.call("", unix.SYS_EXECVE, s.text(spec.Path), s.texts(spec.Args), s.texts(spec.Env))
	}
	s.ops[parent-1].unlessZero = len(s.ops) + 1
	s.reportChild(own(stageTalk))
	return s, nil
}

// birth makes the child. The caller must set in the returned op where the parent
// continues.
func (s *script) birth(users, pids uint64) (parent int) {
	s.call("entering the user namespace", unix.SYS_SETNS, users, unix.CLONE_NEWUSER)
	s.call("entering the guard's PID namespace", unix.SYS_SETNS, pids, unix.CLONE_NEWPID)
	news := s.memory(make([]byte, stageNewsSize))
	const rights = 16 + 4 // a head and one descriptor
	var control []byte
	control = binary.NativeEndian.AppendUint64(control, rights)
	control = binary.NativeEndian.AppendUint32(control, unix.SOL_SOCKET)
	control = binary.NativeEndian.AppendUint32(control, unix.SCM_RIGHTS)
	at := s.memory(append(control, make([]byte, 8)...))
	s.pidfd, s.news = at, news
	clone := s.call("making the child", unix.SYS_CLONE, uint64(unix.CLONE_PARENT|unix.CLONE_PIDFD|unix.SIGCHLD), 0, uint64(at)+16)
	clone.store = news
	return len(s.ops)
}

// reportChild makes the parent report the child to the host, and end.
func (s *script) reportChild(talk uint64) {
	words := func(list ...uint64) uint64 {
		var b []byte
		for _, w := range list {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return uint64(s.memory(b))
	}
	const rights = 16 + 4
	text := words(uint64(s.news), stageNewsSize)
	s.call("reporting the child", unix.SYS_SENDMSG, talk, words(0, 0, text, 1, uint64(s.pidfd), rights, 0), unix.MSG_NOSIGNAL)
	s.call("ending", unix.SYS_EXIT_GROUP, 0)
}

// view creates a mount namespace with the same content as newView. free is the lowest
// free descriptor.
func (s *script) view(b *sandbox, free uint64, temp string) {
	here := int64(unix.AT_FDCWD)
	cwd, empty := uint64(here), s.text("")
	s.call("taking mounts out of the host's", unix.SYS_MOUNT, empty, s.text("/"), 0, unix.MS_SLAVE|unix.MS_REC, 0)
	s.call("finding the mount namespace", unix.SYS_OPENAT, cwd, s.text("/proc/self/ns/mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	namespace, root := free, free+1
	s.mount("tmpfs", root, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, option{"mode", "0755"})
	s.call("putting the sandbox in place", unix.SYS_MOVE_MOUNT, root, empty, cwd, s.text("/"), unix.MOVE_MOUNT_F_EMPTY_PATH)
	points := b.grants.mountPoints()
	if temp != "" {
		for _, p := range prefixes(temp) {
			points = append(points, mountPoint{path: p, folder: true})
		}
	}
	for _, p := range points {
		what, path := "making "+p.path+" in the sandbox", s.text(p.path[1:])
		switch {
		case p.link != "":
			s.try(what, unix.SYS_SYMLINKAT, s.text(p.link), root, path)
		case p.folder:
			s.try(what, unix.SYS_MKDIRAT, root, path, 0o755)
		default:
			s.try(what, unix.SYS_MKNODAT, root, path, unix.S_IFREG|0o644, 0)
		}
	}
	loose := root + 1
	put := func(path string) {
		s.call("putting "+path+" into the sandbox", unix.SYS_MOVE_MOUNT, loose, empty, root, s.text(path[1:]), unix.MOVE_MOUNT_F_EMPTY_PATH)
		s.call("closing a mount", unix.SYS_CLOSE, loose)
	}
	for _, one := range b.grants.mounts() {
		s.call("a second mount of "+one.path, unix.SYS_OPEN_TREE, cwd, s.text(one.path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		s.attributes("attributes of the mount of "+one.path, loose, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, one.attributes())
		put(one.path)
	}
	s.mount("proc", loose, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, option{"hidepid", "ptraceable"})
	put("/proc")
	for path, mode := range map[string]string{"/dev/shm": "1777", temp: "0700"} {
		if path != "" {
			s.mount("tmpfs", loose, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, option{"mode", mode}, option{"size", strconv.FormatInt(b.strict.TempSize, 10)})
			put(path)
		}
	}
	s.attributes("making the sandbox read-only", root, unix.AT_EMPTY_PATH, unix.MOUNT_ATTR_RDONLY)
	s.call("entering the sandbox", unix.SYS_FCHDIR, root)
	dot := s.text(".")
	pivot := s.call("leaving the host's files", unix.SYS_PIVOT_ROOT, dot, dot)
	pivot.onError = len(s.ops) + 3
	s.call("leaving the host's files", unix.SYS_UMOUNT2, dot, unix.MNT_DETACH)
	past := s.call("going on", unix.SYS_GETPID)
	past.unlessZero = len(s.ops) + 2
	// The first root of a machine cannot be left; entering selects the topmost root.
	s.call("entering the mount namespace", unix.SYS_SETNS, namespace, unix.CLONE_NEWNS)
	s.call("closing the root", unix.SYS_CLOSE, root)
	s.call("closing the namespace", unix.SYS_CLOSE, namespace)
}

// option is an option of a file system.
type option struct{ name, value string }

// mount creates a file system with a detached mount, which becomes the descriptor fd, the
// lowest free one.
func (s *script) mount(kind string, fd uint64, attr uint64, options ...option) {
	const setString, create = 1, 6 // of fsconfig(2)
	s.call("making a "+kind, unix.SYS_FSOPEN, s.text(kind), unix.FSOPEN_CLOEXEC)
	for _, o := range options {
		s.call(fmt.Sprintf("making a %s with %s=%s", kind, o.name, o.value), unix.SYS_FSCONFIG, fd, setString, s.text(o.name), s.text(o.value), 0)
	}
	s.call("making a "+kind, unix.SYS_FSCONFIG, fd, create, 0, 0, 0)
	s.call("mounting a "+kind, unix.SYS_FSMOUNT, fd, unix.FSMOUNT_CLOEXEC, attr)
	s.call("mounting a "+kind, unix.SYS_DUP3, fd+1, fd, unix.O_CLOEXEC) // also closes the descriptor of the file system
	s.call("mounting a "+kind, unix.SYS_CLOSE, fd+1)
}

// attributes sets attr on the mount fd.
func (s *script) attributes(what string, fd, flags, attr uint64) {
	set := unix.MountAttr{Attr_set: attr}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&set)), unsafe.Sizeof(set))
	s.call(what, unix.SYS_MOUNT_SETATTR, fd, s.text(""), flags, uint64(s.memory(b)), uint64(len(b)))
}

// home changes to the working folder.
func (s *script) home(spec *Spec, home, temp string) {
	s.call("entering the sandbox", unix.SYS_CHDIR, s.text("/"))
	if temp != "" {
		s.call("entering the temporary folder", unix.SYS_CHDIR, s.text(temp))
	}
	if spec != nil && spec.Dir != "" {
		s.call("", unix.SYS_CHDIR, s.text(spec.Dir))
	} else if home != "" {
		s.try("entering the host's folder", unix.SYS_CHDIR, s.text(home))
	}
}

// restrict does what sandbox.restrict does, except for the filter. The ruleset covers
// what the host sees; restrict adds what only the child has.
func (s *script) restrict(b *sandbox, ruleset, free uint64, temp string) error {
	if b.land != nil {
		for path, access := range map[string]uint64{"/proc": landRead, "/dev/shm": landAll, temp: landAll} {
			if path == "" {
				continue
			}
			rule := binary.NativeEndian.AppendUint64(nil, access&b.land.attr.Handled_access_fs)
			rule = binary.NativeEndian.AppendUint32(rule, uint32(free))
			here := int64(unix.AT_FDCWD)
			s.call("opening "+path, unix.SYS_OPENAT, uint64(here), s.text(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			s.call("landlock rule", unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uint64(s.memory(rule)), 0)
			s.call("closing "+path, unix.SYS_CLOSE, free)
		}
	}
	s.call("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	last, err := lastCapability()
	if err != nil {
		return err
	}
	for c := uint64(0); c <= last; c++ {
		s.call("emptying the capability bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	header := s.memory(binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3))
	s.memory(make([]byte, 8)) // the rest: this process
	s.call("dropping capabilities", unix.SYS_CAPSET, uint64(header), uint64(s.memory(make([]byte, 24))))
	if b.land != nil {
		s.call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
	}
	return nil
}

// lastCapability returns the number of the kernel's last capability.
func lastCapability() (uint64, error) {
	for c := range uint64(64) {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil {
			if c == 0 {
				return 0, &os.SyscallError{Syscall: "prctl", Err: err}
			}
			return c - 1, nil
		}
	}
	return 63, nil
}
