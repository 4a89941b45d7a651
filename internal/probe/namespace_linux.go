package probe

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func tryIPCNamespace() (bool, string) {
	return tryUnshare("IPC and UTS namespaces", unix.CLONE_NEWIPC|unix.CLONE_NEWUTS, nil)
}

func tryNetworkNamespace() (bool, string) {
	return tryUnshare("network namespace", unix.CLONE_NEWNET, nil)
}

func tryMountNamespace() (bool, string) {
	return tryUnshare("mount namespace", unix.CLONE_NEWNS, tryMounts)
}

// tryUnshare reports whether a thread can have namespaces of its own, and do what then
// does in them.
func tryUnshare(name string, flags int, then func() error) (ok bool, detail string) {
	onLostThread(func() {
		err := unix.Unshare(flags)
		if err == nil && then != nil {
			err = then()
		}
		switch {
		case err == nil:
			ok, detail = true, "can be created"
		case errors.Is(err, unix.EPERM):
			detail = fmt.Sprintf("%s: %v: it needs CAP_SYS_ADMIN and CAP_SYS_CHROOT: run as root or grant those capabilities; a container's system-call filter may also forbid it", name, err)
		case errors.Is(err, unix.ENOSPC):
			detail = fmt.Sprintf("%s: the limit in /proc/sys/user is reached", name)
		case errors.Is(err, unix.EINVAL):
			detail = fmt.Sprintf("%s: this kernel was built without it", name)
		default:
			detail = fmt.Sprintf("%s: %v", name, err)
		}
	})
	return ok, detail
}

// tryMounts does what sandboxes do, on a thread with its own mount namespace: it leaves
// the namespace and returns to it, and creates a file system with a detached mount, which
// disappears with its descriptors.
func tryMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil { // this also needs CAP_SYS_CHROOT
		return fmt.Errorf("entering: %w", err)
	}
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return errors.New(needs("fsopen", "5.2", err))
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("making a tmpfs: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	defer unix.Close(mount)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return errors.New(needs("mount_setattr", "5.12", err))
	}
	return nil
}
