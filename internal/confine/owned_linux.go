package confine

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Folders of a host are named bullpen-PID-RANDOM. A host lives if it holds the lock on
// its folder. The number does not tell that: it means nothing in another PID namespace
// and may be reused. Locks also work on cgroup file systems, v1 and v2.
const (
	ownedPrefix = "bullpen-"
	ownedRandom = 8 // bytes
	ownedTries  = 16
)

// errHeld means that a folder belongs to a live host.
var errHeld = errors.New("its owner lives")

// owned is a folder that belongs to this process until it is released.
type owned struct {
	path string
	lock int // descriptor of the folder, holding the lock
}

// ownFolder creates a folder of this process in parent, for this user only.
func ownFolder(parent string) (*owned, error) {
	var err error
	for range ownedTries {
		random := make([]byte, ownedRandom)
		_, _ = rand.Read(random) // never fails: crypto/rand ends the program instead
		path := filepath.Join(parent, fmt.Sprintf("%s%d-%s", ownedPrefix, os.Getpid(), hex.EncodeToString(random)))
		if err = retry(func() error { return unix.Mkdir(path, 0o700) }); errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("confine: %w", &os.PathError{Op: "mkdir", Path: path, Err: err})
		}
		var lock int
		if lock, err = lockFolder(path); err == nil {
			return &owned{path, lock}, nil
		}
		// Before it is locked, another host may take it for a dead host's and remove it:
		// then try another name.
		if !errors.Is(err, errHeld) && !errors.Is(err, os.ErrNotExist) {
			_ = unix.Rmdir(path)
			break
		}
	}
	return nil, fmt.Errorf("confine: a folder in %s that is locked: %w", parent, err)
}

// release unlocks the folder. The caller has removed the folder, or leaves that to the
// next sweep.
func (o *owned) release() { unix.Close(o.lock) }

// lockFolder locks the folder at path, which must belong to this user and must not be a
// symbolic link. The error is errHeld if another process has the lock, and an
// fs.ErrNotExist if the folder does not exist.
func lockFolder(path string) (int, error) {
	fd, err := openFolder(unix.AT_FDCWD, path)
	if err != nil {
		return -1, err
	}
	if err := lockOpen(fd, path); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func lockOpen(fd int, path string) error {
	var held, named unix.Stat_t
	if err := unix.Fstat(fd, &held); err != nil {
		return &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	if int(held.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: %w", path, held.Uid, os.ErrPermission)
	}
	err := retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	if err != nil {
		return &os.PathError{Op: "flock", Path: path, Err: err}
	}
	// The previous holder of the lock may have removed the folder.
	if err := unix.Lstat(path, &named); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if named.Ino != held.Ino || named.Dev != held.Dev {
		return &os.PathError{Op: "flock", Path: path, Err: unix.ENOENT}
	}
	return nil
}

// sweep calls remove for the folders in parent whose hosts are dead. No other host does
// so at the same time. It returns the errors of remove.
func sweep(parent string, remove func(path string) error) error {
	folder, err := openFolder(unix.AT_FDCWD, parent)
	if err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	var names []string
	_, err = readNames(folder, func(name string) {
		if ownedName(name) {
			names = append(names, name)
		}
	})
	unix.Close(folder)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("confine: %w", err))
	}
	for _, name := range names {
		path := filepath.Join(parent, name)
		lock, err := lockFolder(path)
		if err != nil {
			continue // a live host's, another user's, or gone
		}
		faults = append(faults, remove(path))
		unix.Close(lock)
	}
	return errors.Join(faults...)
}

// ownedName reports whether a name is that of a host's folder.
func ownedName(name string) bool {
	rest, ok := strings.CutPrefix(name, ownedPrefix)
	pid, random, found := strings.Cut(rest, "-")
	if !ok || !found || len(random) != hex.EncodedLen(ownedRandom) {
		return false
	}
	_, err := strconv.ParseUint(pid, 10, 31)
	_, hexErr := hex.DecodeString(random)
	return err == nil && hexErr == nil
}

// openFolder opens a folder relative to the folder at. It does not follow a symbolic
// link.
func openFolder(at int, name string) (fd int, err error) {
	err = retry(func() (err error) {
		fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// retry calls f until it is not interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
