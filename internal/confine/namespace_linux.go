package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// view is a mount namespace that holds only what children may see. It is created once.
// Each child gets a copy, which is cheap as it has few mounts, and adds its own temporary
// folder and /dev/shm.
type view struct {
	namespace int    // descriptor of the namespace
	proc      int    // its /proc, O_PATH
	open      string // why /proc shows all processes of the host; empty if it does not

	mu       sync.Mutex
	skeleton int            // its root below all mounts, writable; -1: closed; guarded by mu
	folders  map[string]int // number of users of each folder created in skeleton; guarded by mu
}

const (
	emptyFile   = ".hidden-file"
	emptyFolder = ".hidden-folder"
)

// newView creates a view of g with the processes in the namespace of pid, or of this
// process if pid is 0. It changes the calling thread, which must be a separate one that
// then ends.
func newView(g *grants, pid int) (v *view, err error) {
	v = &view{namespace: -1, proc: -1, skeleton: -1, folders: map[string]int{}}
	defer func() {
		if err != nil {
			v.close()
			v = nil
		}
	}()
	users := -1
	if os.Geteuid() == 0 {
		if users, err = emptyUserNamespace(); err == nil {
			defer unix.Close(users)
		}
	}
	if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return v, fmt.Errorf("mount namespace: %w", err)
	}
	if err = unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return v, fmt.Errorf("separating mounts from the host's: %w", err)
	}
	// Before /proc is replaced.
	if v.namespace, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return v, fmt.Errorf("mount namespace: %w", err)
	}
	root, err := detachedMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, map[string]string{"mode": "0755"}, -1)
	if err != nil {
		return v, err
	}
	defer unix.Close(root)
	// The thread's root stays the one below. Older kernels cannot clone detached mounts.
	if err = unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return v, fmt.Errorf("putting the sandbox in place: %w", err)
	}
	// A second mount of the same file system, on which nothing is ever mounted.
	if v.skeleton, err = cloneMount(root, "", 0); err != nil {
		return v, err
	}
	loose, err := v.mounts(root, users, g, pid)
	defer func() {
		for _, m := range loose {
			unix.Close(m.fd)
		}
	}()
	if err != nil {
		return v, err
	}
	return v, assemble(root, loose)
}

// looseMount is a detached mount and the path it belongs to.
type looseMount struct {
	path string
	fd   int
}

// mounts creates all mounts for v, and the mount points. The caller must close the
// returned mounts, even after an error.
func (v *view) mounts(root, users int, g *grants, pid int) (loose []looseMount, err error) {
	if err := v.makeMountPoints(g); err != nil {
		return nil, err
	}
	var secrets []string
	for _, one := range g.mounts() {
		fd, err := cloneMount(unix.AT_FDCWD, one.path, unix.AT_RECURSIVE)
		if err != nil {
			return loose, err
		}
		loose = append(loose, looseMount{one.path, fd})
		attr := unix.MountAttr{Attr_set: one.attributes()}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return loose, fmt.Errorf("attributes of the mount of %s: %w", one.path, err)
		}
		if one.path == settings && os.Geteuid() == 0 && (users < 0 || asNobody(fd, users) != nil) {
			secrets = g.secrets(settings)
		}
	}
	for _, path := range secrets {
		fd, err := coverMount(root, path)
		if err != nil {
			return loose, err
		}
		loose = append(loose, looseMount{path, fd})
	}
	proc, err := procMount(pid)
	if err != nil { // some containers forbid it
		v.open = err.Error()
		if proc, err = cloneMount(unix.AT_FDCWD, "/proc", unix.AT_RECURSIVE); err != nil {
			return loose, err
		}
	}
	loose = append(loose, looseMount{"/proc", proc})
	v.proc, err = unix.Openat(proc, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return loose, err
}

// makeMountPoints creates the folders and files to mount on, and the links. No other goroutine
// uses the skeleton yet.
func (v *view) makeMountPoints(g *grants) error {
	list := append(g.mountPoints(), mountPoint{path: "/" + emptyFile}, mountPoint{path: "/" + emptyFolder, folder: true})
	for _, p := range list {
		var err error
		switch {
		case p.link != "":
			err = unix.Symlinkat(p.link, v.skeleton, p.path[1:])
		case p.folder:
			err = unix.Mkdirat(v.skeleton, p.path[1:], 0o755)
		default:
			err = unix.Mknodat(v.skeleton, p.path[1:], unix.S_IFREG, 0)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "make in the sandbox", Path: p.path, Err: err}
		}
	}
	if err := unix.Fchmodat(v.skeleton, emptyFolder, 0, 0); err != nil {
		return fmt.Errorf("making the sandbox: %w", err)
	}
	return nil
}

// prefixes returns "/a" and "/a/b" for "/a/b".
func prefixes(path string) (list []string) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			list = append(list, path[:i])
		}
	}
	if path != "/" {
		list = append(list, path)
	}
	return list
}

// assemble makes root, with the loose mounts in it, the only content of the calling
// thread's mount namespace.
func assemble(root int, loose []looseMount) error {
	for _, m := range loose {
		if err := unix.MoveMount(m.fd, "", root, m.path[1:], unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("putting %s into the sandbox: %w", m.path, err)
		}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("making the sandbox read-only: %w", err)
	}
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("entering the sandbox: %w", err)
	}
	// A thread that enters this namespace gets the topmost root. Removing what is below
	// makes copies cheap; the first root of a machine cannot be removed.
	if unix.PivotRoot(".", ".") == nil {
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("leaving the host's files: %w", err)
		}
	}
	return nil
}

// detachedMount creates a new file system and a detached mount of it.
func detachedMount(kind string, attr int, options map[string]string, pidns int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("making a %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for name, value := range options {
		if err := unix.FsconfigSetString(fs, name, value); err != nil {
			return -1, fmt.Errorf("making a %s with %s=%s: %w", kind, name, value, err)
		}
	}
	if pidns >= 0 {
		// Before 6.17 a /proc shows the namespace of its creator: it includes the child's
		// processes, with their numbers outside.
		_ = unix.FsconfigSetFd(fs, "pidns", pidns)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("making a %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("mounting a %s: %w", kind, err)
	}
	return fd, nil
}

// cloneMount creates a detached copy of the mount at path.
func cloneMount(dir int, path string, flags uint) (int, error) {
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(dir, path, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("a second mount of %s: %w", path, err)
	}
	return fd, nil
}

// coverMount creates a mount that hides what is at path.
func coverMount(root int, path string) (int, error) {
	empty := emptyFile
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		empty = emptyFolder
	}
	fd, err := cloneMount(root, empty, 0)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("hiding %s: %w", path, err)
	}
	return fd, nil
}

// procMount creates a /proc for the PID namespace of pid that shows each process only the
// processes it may trace: under Landlock its own.
func procMount(pid int) (int, error) {
	ns := -1
	if pid > 0 {
		var err error
		if ns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/pid", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return -1, fmt.Errorf("the PID namespace for /proc: %w", err)
		}
		defer unix.Close(ns)
	}
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	return detachedMount("proc", attr, map[string]string{"hidepid": "ptraceable"}, ns)
}

// enter moves the calling thread, which must be a separate one that then ends, into a
// copy of v, with a folder temp and a /dev/shm that hold size bytes each.
func (v *view) enter(temp string, size int64) error {
	if err := unix.Setns(v.namespace, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the mount namespace: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	bytes := strconv.FormatInt(size, 10)
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+bytes); err != nil {
		return fmt.Errorf("mounting /dev/shm: %w", err)
	}
	if temp == "" {
		return nil
	}
	if err := unix.Mount("tmpfs", temp, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+bytes); err != nil {
		return fmt.Errorf("mounting the temporary folder: %w", err)
	}
	return nil
}

// addFolder creates a folder on which a temporary folder can be mounted. It exists until
// release is called, which also removes the mount.
func (v *view) addFolder(path string) (release func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var made []string
	release = sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.removeLocked(made)
	})
	for _, p := range prefixes(path) {
		if v.folders[p] == 0 {
			err := unix.Mkdirat(v.skeleton, p[1:], 0o755)
			if errors.Is(err, unix.EEXIST) {
				continue // part of the skeleton
			}
			if err != nil {
				v.removeLocked(made)
				return nil, &os.PathError{Op: "make in the sandbox", Path: path, Err: err}
			}
		}
		v.folders[p]++
		made = append(made, p)
	}
	return release, nil
}

// removeLocked removes the folders that have no user left. v.mu is held.
func (v *view) removeLocked(made []string) {
	for _, p := range slices.Backward(made) {
		if v.folders[p]--; v.folders[p] > 0 {
			continue
		}
		delete(v.folders, p)
		if v.skeleton >= 0 {
			// Cannot fail; if it did, an empty folder would remain in memory.
			_ = unix.Unlinkat(v.skeleton, strings.TrimPrefix(p, "/"), unix.AT_REMOVEDIR)
		}
	}
}

// close releases v. Children that see it keep it.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, fd := range []int{v.namespace, v.proc, v.skeleton} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	v.namespace, v.proc, v.skeleton = -1, -1, -1
}
