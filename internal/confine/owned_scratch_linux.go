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

// Scratch is a folder of this host for temporary folders of its workers. It
// may be read and entered by its user only. All methods may be called from
// many goroutines at once.
type Scratch struct {
	own    *owned
	trash  int           // descriptor of the folder trashName
	ahead  chan string   // folders made before they are wanted
	maker  chan struct{} // holds an element while somebody makes them
	making sync.WaitGroup

	mu     sync.RWMutex // held for reading while anything is made or removed
	closed bool         // +checklocks:mu
	err    error        // +checklocks:mu; of the first Close
}

// OpenScratch makes one in parent, or in [os.TempDir] if that is empty, and
// removes what dead hosts of the same user have left there, which takes as
// long as there is much of it. The caller has to close it. It refuses a parent
// in which every user may rename what belongs to others. What dead hosts have
// left and cannot be removed stays for a later try.
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
		return nil, fmt.Errorf("confine: temporary folders: in %s (mode %v) every user may replace what belongs to others: set its sticky bit, or name another folder", parent, mode)
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

// foldersAhead is how many folders are made before they are wanted: where files
// are on a disk, mkdir takes a third of a millisecond, and a start waits for it.
const foldersAhead = 4

// Folder gives a new empty folder, for this user only. After Close the error is
// [ErrClosed]. It makes the next ones in the background.
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

// prepare has the next folders made, unless that is under way. s.mu is held.
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
				return // who wants one next is told
			}
			s.ahead <- path // there is room: nobody else makes any
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

// Remove removes a folder made by Folder with all that is in it, also what is
// read-only. It keeps few descriptors open and little memory, however deep or
// full the folder is, and follows no symbolic link. What is already gone is no
// error; what cannot be removed, such as a mount point, is named in the error
// and left to Close. After Close it does nothing.
func (s *Scratch) Remove(path string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil
	}
	name := filepath.Base(path)
	if filepath.Clean(path) != filepath.Join(s.own.path, name) || name == trashName {
		return fmt.Errorf("confine: %s is no temporary folder of this host", path)
	}
	return newRemover(s.trash).remove(s.own.lock, name, path)
}

// removeOther removes the folder of a dead host. Its entries go one by one,
// so that what cannot be moved leaves the others no excuse.
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

// Close removes everything. Files that a process still holds open use up space
// until it ends. It is idempotent; the error names what could not be removed,
// for which a later host tries again.
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
		_ = unix.Unlinkat(s.own.lock, trashName, unix.AT_REMOVEDIR) // the next step fails if this has
		s.err = removeFolder(s.own.path)
	}
	s.own.release()
	return s.err
}

// makeFolder makes a folder and opens it.
func makeFolder(at int, name string) (fd int, err error) {
	err = retry(func() error { return unix.Mkdirat(at, name, 0o700) })
	if err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return openFolder(at, name)
}
