package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// remover removes trees. Instead of descending into them it moves each non-empty folder
// into the trash, which keeps all of them at one depth: it needs no descriptor, memory or
// path per level, and what it opens is never a mount point, since mount points cannot be
// moved.
type remover struct {
	trash int      // descriptor of a folder on the same file system
	todo  []string // folders in the trash
	first error    // the first failure
	left  int      // how many further failures
}

// trashNumber makes the names in the trash unique.
var trashNumber atomic.Uint64

func newRemover(trash int) *remover { return &remover{trash: trash} }

// remove removes the entry name of the folder at; path names it in errors.
func (r *remover) remove(at int, name, path string) error {
	if err := r.drop(at, name); err != nil {
		r.fail(err)
	}
	return r.finish(path)
}

// empty removes the content of the folder fd; path names it in errors.
func (r *remover) empty(fd int, path string) error {
	r.clear(fd)
	return r.finish(path)
}

// again lists what earlier removals have left in the trash.
func (r *remover) again() {
	if _, err := readNames(r.trash, func(name string) { r.todo = append(r.todo, name) }); err != nil {
		r.fail(err)
	}
}

// finish removes the folders in the trash.
func (r *remover) finish(path string) error {
	for len(r.todo) > 0 {
		name := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		if err := r.take(name); err != nil {
			r.fail(err)
		}
	}
	switch {
	case r.first == nil:
		return nil
	case r.left == 0:
		return fmt.Errorf("confine: remove %s: %w", path, r.first)
	}
	return fmt.Errorf("confine: remove %s: %w, and %d more", path, r.first, r.left)
}

func (r *remover) fail(err error) {
	if r.first == nil {
		r.first = err
		return
	}
	r.left++
}

// take removes one folder in the trash. Folders in it are moved to the trash.
func (r *remover) take(name string) error {
	fd, err := openFolder(r.trash, name)
	if errors.Is(err, os.ErrPermission) {
		if err = unlock(r.trash, name); err == nil {
			fd, err = openFolder(r.trash, name)
		}
	}
	if err != nil {
		return err
	}
	r.clear(fd)
	unix.Close(fd)
	err = retry(func() error { return unix.Unlinkat(r.trash, name, unix.AT_REMOVEDIR) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// clear drops all entries of the folder fd. Dropping may hide entries from the reading in
// progress, so it reads again until it finds nothing new.
func (r *remover) clear(fd int) {
	_ = unix.Fchmod(fd, 0o700) // of another user's folder: root does not need this
	for failed, dropped := map[string]bool{}, true; dropped; {
		dropped = false
		names, err := readNames(fd, func(name string) {
			if name == trashName && r.within(fd, name) || failed[name] {
				return
			}
			dropped = true
			if err := r.drop(fd, name); err != nil {
				failed[name] = true
				r.fail(err)
			}
		})
		if err != nil {
			r.fail(err)
			return
		}
		if names == 0 {
			return
		}
	}
}

// within reports whether the entry name of the folder fd is the trash itself, which is
// removed last.
func (r *remover) within(fd int, name string) bool {
	var entry, trash unix.Stat_t
	if unix.Fstatat(fd, name, &entry, unix.AT_SYMLINK_NOFOLLOW) != nil || unix.Fstat(r.trash, &trash) != nil {
		return false
	}
	return entry.Ino == trash.Ino && entry.Dev == trash.Dev
}

// drop removes a file or an empty folder, and moves a non-empty one to the trash.
func (r *remover) drop(at int, name string) error {
	err := retry(func() error { return unix.Unlinkat(at, name, 0) })
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !isFolder(at, name) {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	err = retry(func() error { return unix.Unlinkat(at, name, unix.AT_REMOVEDIR) })
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	into := strconv.FormatUint(trashNumber.Add(1), 10)
	move := func() error {
		return retry(func() error { return unix.Renameat(at, name, r.trash, into) })
	}
	err = move()
	if errors.Is(err, unix.EACCES) { // its entry ".." changes, so it must be writable
		if err = unlock(at, name); err == nil {
			err = move()
		}
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: name, Err: err}
	}
	r.todo = append(r.todo, into)
	return nil
}

// isFolder reports whether an entry is a folder and not a symbolic link.
func isFolder(at int, name string) bool {
	var s unix.Stat_t
	err := unix.Fstatat(at, name, &s, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR
}

// unlock makes a folder accessible to its owner. It uses a descriptor, since an entry
// could be replaced by a symbolic link before its mode is changed.
func unlock(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// readNames calls f for each entry of the folder fd and returns their number.
func readNames(fd int, f func(name string)) (n int, err error) {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("reading a folder: %w", err)
	}
	buf := make([]byte, 8192)
	for {
		var size int
		err := retry(func() (err error) {
			size, err = unix.ReadDirent(fd, buf)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("reading a folder: %w", err)
		}
		if size <= 0 {
			return n, nil
		}
		_, count, names := unix.ParseDirent(buf[:size], -1, nil)
		n += count
		for _, name := range names {
			f(strings.Clone(name))
		}
	}
}
