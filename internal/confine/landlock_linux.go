package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	landRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landABI1 = landRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landABI2 = landABI1 | unix.LANDLOCK_ACCESS_FS_REFER
	landABI3 = landABI2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landABI5 = landABI3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landAll  = landABI5
	// landFile are the rights that apply to anything but a folder.
	landFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landNet   = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	landScope = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL

	// From these versions on Landlock supports ports, and scopes.
	landABINet, landABIScope = 4, 6
	// landErratumThreads is the fix that lets a thread signal other threads of its own
	// process, whatever its scope.
	landErratumThreads = 1 << 1
)

// landlock describes the rulesets of one Spawner. It is immutable.
type landlock struct {
	abi  int
	attr unix.LandlockRulesetAttr
}

// landRule grants access to the file or folder of the descriptor fd.
type landRule struct {
	fd     int
	access uint64
}

// newLandlock detects what the kernel supports. With inNamespace children are in a PID
// namespace, which confines signals anyway. With tcp they may use TCP, with network also
// abstract sockets.
func newLandlock(network, tcp, inNamespace bool) (*landlock, error) {
	abi, err := landQuery(unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != nil {
		return nil, err
	}
	l := &landlock{abi: abi}
	switch {
	case abi >= 5:
		l.attr.Handled_access_fs = landABI5
	case abi >= 3:
		l.attr.Handled_access_fs = landABI3
	case abi == 2:
		l.attr.Handled_access_fs = landABI2
	default:
		l.attr.Handled_access_fs = landABI1
	}
	if abi >= landABINet && !tcp {
		l.attr.Handled_access_net = landNet
	}
	if abi >= landABIScope {
		l.attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !network {
			l.attr.Scoped = landScope
		}
		// Without that fix the runtime, on a restricted thread, could not interrupt the
		// other threads in the moment before the thread ends.
		if fixed, err := landQuery(unix.LANDLOCK_CREATE_RULESET_ERRATA); inNamespace && (err != nil || fixed&landErratumThreads == 0) {
			l.attr.Scoped &^= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	return l, nil
}

func landQuery(flag uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, flag)
	if errno != 0 {
		return 0, fmt.Errorf("landlock: %w", errno)
	}
	return int(n), nil
}

// ruleset creates a ruleset with these rules. The caller closes it.
func (l *landlock) ruleset(rules []landRule) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&l.attr)), unsafe.Sizeof(l.attr), 0)
	if errno != 0 {
		return -1, fmt.Errorf("landlock ruleset: %w", errno)
	}
	var rule unix.LandlockPathBeneathAttr
	for _, r := range rules {
		rule.Allowed_access, rule.Parent_fd = r.access&l.attr.Handled_access_fs, int32(r.fd)
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			unix.Close(int(fd))
			return -1, fmt.Errorf("landlock rule: %w", errno)
		}
	}
	return int(fd), nil
}

// landRestrict applies a ruleset to the calling thread. It needs no_new_privs.
func landRestrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}
