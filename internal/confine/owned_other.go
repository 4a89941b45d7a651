//go:build !linux

package confine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Scratch is a folder of this host for temporary folders of its workers. Only its user
// can read and enter it, if the system has such modes. All methods are safe for
// concurrent use.
type Scratch struct {
	path string

	mu     sync.RWMutex // held for reading while folders are created or removed
	closed bool         // guarded by mu
	err    error        // of the first Close; guarded by mu
}

// OpenScratch creates a Scratch in parent, or in [os.TempDir] if parent is empty. The
// caller must close it. On this system it does not remove what dead hosts have left.
func OpenScratch(parent string) (*Scratch, error) {
	path, err := os.MkdirTemp(parent, "bullpen-*")
	if err != nil {
		return nil, fmt.Errorf("confine: temporary folders: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("confine: temporary folders: %w", err)
	}
	return &Scratch{path: path}, nil
}

// Folder creates a new empty folder, for this user only. After Close the error is
// [ErrClosed].
func (s *Scratch) Folder() (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return "", ErrClosed
	}
	path, err := os.MkdirTemp(s.path, "worker-*")
	if err != nil {
		return "", fmt.Errorf("confine: temporary folder: %w", err)
	}
	return path, nil
}

// Remove removes a folder made by Folder with everything in it, even if it is read-only,
// without following symbolic links. A missing folder is no error. After Close it does
// nothing.
func (s *Scratch) Remove(path string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil
	}
	if filepath.Dir(filepath.Clean(path)) != s.path {
		return fmt.Errorf("confine: %s is not a temporary folder of this host", path)
	}
	return removeTree(path)
}

// Close removes everything. It is idempotent; the error names what could not
// be removed.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed, s.err = true, removeTree(s.path)
	}
	return s.err
}

// removeTree removes path and everything in it. It first makes read-only entries
// writable, without leaving path through a symbolic link.
func removeTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), filepath.Base(path), func(name string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = root.Chmod(name, 0o700) // if this is refused, so is the removal, which returns the error
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	return nil
}
