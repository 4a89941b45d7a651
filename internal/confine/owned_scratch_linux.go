package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// trashName is the folder in which a Scratch takes apart what it removes.
const trashName = ".removed"

// Scratch is a folder of this host for temporary folders of its workers. Only its user
// can read and enter it. All methods are safe for concurrent use.
type Scratch struct {
	own    *owned
	trash  int           // descriptor of the folder trashName
	ahead  chan string   // folders created in advance
	maker  chan struct{} // holds an element while a goroutine creates them
	making sync.WaitGroup

	mu     sync.RWMutex // held for reading while folders are created or removed
	closed bool         // guarded by mu
	err    error        // of the first Close; guarded by mu
}

// OpenScratch creates a Scratch in parent, or in [os.TempDir] if parent is empty. It
// removes what dead hosts of the same user have left there, which takes time if there is
// much of it; what cannot be removed is left for a later try. The caller must close it.
// It refuses a parent in which every user can rename the files of others.
func OpenScratch(parent string) (*Scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err == nil {
		parent, err = filepath.EvalSymlinks(parent)
	}
	if err != nil {
		return nil, fmt.Errorf("confine: temporary folders: %w", err)
	}
	info, err := os.Stat(parent)
	if err != nil {
		return nil, fmt.Errorf("confine: temporary folders: %w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 && mode&os.ModeSticky == 0 {
		return nil, fmt.Errorf("confine: temporary folders: in %s (mode %v) users can replace files of other users: set its sticky bit, or name another folder", parent, mode)
	}
	own, err := ownFolder(parent)
	if err != nil {
		return nil, err
	}
	s := &Scratch{own: own, ahead: make(chan string, foldersAhead), maker: make(chan struct{}, 1)}
	if s.trash, err = makeFolder(own.lock, trashName); err != nil {
		_ = os.RemoveAll(own.path)
		own.release()
		return nil, fmt.Errorf("confine: temporary folders: %w", err)
	}
	_ = sweep(parent, s.removeOther) // a later host tries again
	return s, nil
}

// foldersAhead is how many folders are created in advance: on a disk mkdir takes a third
// of a millisecond, and a start waits for it.
const foldersAhead = 4

// Folder returns a new empty folder, for this user only. After Close the error is
// [ErrClosed]. It creates the next folders in the background.
func (s *Scratch) Folder() (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return "", ErrClosed
	}
	defer s.prepare()
	select {
	case path := <-s.ahead:
		return path, nil
	default:
		return s.makeFolder()
	}
}

// prepare creates the next folders in the background, unless that is in progress. s.mu is
// held.
func (s *Scratch) prepare() {
	select {
	case s.maker <- struct{}{}:
	default:
		return
	}
	// Ends when they are made; Close waits for it.
	s.making.Go(func() {
		defer func() { <-s.maker }()
		for len(s.ahead) < cap(s.ahead) {
			path, err := s.makeFolder()
			if err != nil {
				return // the next call of Folder returns the error
			}
			s.ahead <- path // does not block: no other goroutine creates folders
		}
	})
}

func (s *Scratch) makeFolder() (string, error) {
	path, err := os.MkdirTemp(s.own.path, "worker-*")
	if err != nil {
		return "", fmt.Errorf("confine: temporary folder: %w", err)
	}
	return path, nil
}

// Remove removes a folder made by Folder with everything in it, even if it is read-only.
// It uses few descriptors and little memory, however deep or full the folder is, and
// follows no symbolic links. A missing folder is no error. What cannot be removed, such
// as a mount point, is named in the error and left to Close. After Close it does nothing.
func (s *Scratch) Remove(path string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil
	}
	name := filepath.Base(path)
	if filepath.Clean(path) != filepath.Join(s.own.path, name) || name == trashName {
		return fmt.Errorf("confine: %s is not a temporary folder of this host", path)
	}
	return newRemover(s.trash).remove(s.own.lock, name, path)
}

// removeOther removes the folder of a dead host, entry by entry, so that an entry that
// cannot be moved does not keep the others.
func (s *Scratch) removeOther(path string) error {
	fd, err := openFolder(unix.AT_FDCWD, path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := newRemover(s.trash).empty(fd, path); err != nil {
		return err
	}
	return removeFolder(path)
}

// removeFolder removes an empty folder.
func removeFolder(path string) error {
	err := retry(func() error { return unix.Rmdir(path) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("confine: temporary folders: %w", &os.PathError{Op: "rmdir", Path: path, Err: err})
	}
	return nil
}

// Close removes everything. Files that a process still has open use space until it closes
// them. It is idempotent; the error names what could not be removed, which a later host
// tries again.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.err
	}
	s.closed = true
	s.making.Wait()
	r := newRemover(s.trash)
	r.again()
	s.err = r.empty(s.own.lock, s.own.path)
	unix.Close(s.trash)
	if s.err == nil {
		_ = unix.Unlinkat(s.own.lock, trashName, unix.AT_REMOVEDIR) // if this fails, so does the next step
		s.err = removeFolder(s.own.path)
	}
	s.own.release()
	return s.err
}

// makeFolder creates a folder and opens it.
func makeFolder(at int, name string) (fd int, err error) {
	err = retry(func() error { return unix.Mkdirat(at, name, 0o700) })
	if err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return openFolder(at, name)
}
