package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// asNobody makes nobody, the only user in the namespace users, the owner of all
// files of a mount that hangs nowhere yet. Then root is not their owner either
// and, having no capabilities, may read what every user may read. In contrast
// to hiding files one by one, that holds as well for those that are made or
// replaced later. Not every kind of file system can do it.
func asNobody(mount, users int) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users)}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mapping owners: %w", err)
	}
	return nil
}

// emptyUserNamespace makes a user namespace that has no user but nobody. It
// takes a process to make one, which is not needed for longer. The kernel
// refuses it to threads whose root is not that of their mount namespace.
func emptyUserNamespace() (fd int, err error) {
	const nobody = 65534
	program := guardProgram()
	if program == nil {
		return -1, ErrUnsupported
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[0]) // which would end it as well
	defer unix.Close(pair[1])
	none := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: nobody, Size: 1}}
	err = withMemoryProgram(program, 1, func(path string) error {
		pid, err := forkExec(path, []string{"bullpen-guard"}, &syscall.ProcAttr{
			Dir: "/", Files: []uintptr{uintptr(pair[1])},
			Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: none, GidMappings: none},
		})
		if err != nil {
			return err
		}
		fd, err = unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			err = &os.PathError{Op: "open", Path: "the namespace of a process", Err: err}
		}
		// A child of ours that nobody else knows.
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			if _, waitErr := unix.Wait4(pid, nil, 0, nil); !errors.Is(waitErr, unix.EINTR) {
				return err
			}
		}
	})
	if err != nil {
		return -1, fmt.Errorf("user namespace: %w", err)
	}
	return fd, nil
}
