package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// asNobody makes nobody, the only user in the namespace users, the owner of all files of
// a detached mount. Then root does not own them either and, without capabilities, can
// read only what every user can read. Unlike hiding files one by one, this also covers
// files created or replaced later. Not every file system supports it.
func asNobody(mount, users int) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users)}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mapping owners: %w", err)
	}
	return nil
}

// emptyUserNamespace creates a user namespace whose only user is nobody. It needs a
// process to create it, which then ends. The kernel refuses it to threads whose root is
// not that of their mount namespace.
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
	defer unix.Close(pair[0]) // this also ends the process
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
		// Only this function knows this child.
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
