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

// Folders of one host are named bullpen-PID-RANDOM. What tells whether the
// host lives is the lock that it holds on the folder, never the number, which
// means nothing in another PID namespace and may be reused. Locks work on
// cgroup file systems, v1 and v2, as on others.
const (
	ownedPrefix = "bullpen-"
	ownedRandom = 8 // bytes
	ownedTries  = 16
)

// errHeld says that a folder belongs to a host that lives.
var errHeld = errors.New("its owner lives")

// owned is a folder that belongs to this process until it is released.
type owned struct {
	path string
	lock int // descriptor of the folder, which holds the lock
}

// ownFolder makes a folder of this process in parent. It is for this user
// only.
func ownFolder(parent string) (*owned, error) {
	var err error
	for range ownedTries {
		random := make([]byte, ownedRandom)
		_, _ = rand.Read(random) // never fails: package crypto/rand ends the program instead
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
		// Before it is locked another host may take it for a dead one's and
		// remove it: then try another.
		if !errors.Is(err, errHeld) && !errors.Is(err, os.ErrNotExist) {
			_ = unix.Rmdir(path)
			break
		}
	}
	return nil, fmt.Errorf("confine: a folder in %s that is locked: %w", parent, err)
}

// release gives the lock back. Who does it has removed the folder, or leaves
// that to the next sweep.
func (o *owned) release() { unix.Close(o.lock) }

// lockFolder takes the lock of the folder at path, which has to belong to
// this user and to be no symbolic link. The error is errHeld if another has
// the lock, and an fs.ErrNotExist if the folder has gone.
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
	// Whoever had the lock before may have removed the folder.
	if err := unix.Lstat(path, &named); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	if named.Ino != held.Ino || named.Dev != held.Dev {
		return &os.PathError{Op: "flock", Path: path, Err: unix.ENOENT}
	}
	return nil
}

// sweep calls remove for the folders in parent whose hosts are dead. No other
// host does the same at the same time. The error is what remove could not do.
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
			continue // a living host's, another user's, or gone
		}
		faults = append(faults, remove(path))
		unix.Close(lock)
	}
	return errors.Join(faults...)
}

// ownedName reports whether a folder is named like those of hosts.
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

// openFolder opens a folder that is no symbolic link, relative to the folder
// at.
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

// retry calls f until no signal has interrupted it.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
