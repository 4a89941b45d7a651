package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// aside is the file system that Pebble sees: haltFS of the store, and the folder
// of a backup. In that folder a failed write ends the backup and not the engine, and
// writes are not recorded as those of the store.
type aside struct {
	haltFS

	*backup
}

// backup is the backup in progress, if any.
type backup struct {
	one  sync.Mutex      // held while a backup is made
	stop <-chan struct{} // closed when Close of the engine begins

	mu   sync.Mutex
	ctx  context.Context   //nolint:containedctx // of the call of Backup; guarded by mu
	dir  string            // its folder, empty for none; guarded by mu
	logs map[string]*noted // logs of the store that this process has created; guarded by mu
}

func (b *backup) begin(ctx context.Context, f folder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx, b.dir = ctx, f.dir
}

func (b *backup) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dir = ""
}

// ended returns why the backup should stop.
func (b *backup) ended() error {
	select {
	case <-b.stop:
		return engine.ErrClosed
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || b.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("interrupted: %w", context.Cause(b.ctx))
}

// has reports whether a path is the backup's folder or below it.
func (a aside) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == "" {
		return false
	}
	return path == a.dir || strings.HasPrefix(path, strings.TrimSuffix(a.PathJoin(a.dir, "x"), "x"))
}

// note remembers a log that was created.
func (a aside) note(name string, f vfs.File) {
	if log, ok := f.(*noted); ok && strings.HasSuffix(name, ".log") {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.logs[name] = log
	}
}

func (a aside) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.logs, name)
}

// Create creates a file.
func (a aside) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !a.has(name) {
		f, err := a.haltFS.Create(name, category)
		a.note(name, f)
		return f, err
	}
	if err := a.ended(); err != nil {
		return nil, err
	}
	f, err := a.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return copied{f, a.backup}, nil
}

// ReuseForWrite renames a file and opens it for writing.
func (a aside) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := a.haltFS.ReuseForWrite(oldName, newName, category)
	a.forget(oldName)
	a.note(newName, f)
	return f, err
}

// Open opens a file for reading. Pebble reads a log that is still written only for a
// backup; it then ends where the log ends now. The bytes behind that may come from an
// older log whose file was reused, and are overwritten meanwhile.
func (a aside) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	if a.has(name) {
		return a.FS.Open(name, options...)
	}
	a.mu.Lock()
	log := a.logs[name]
	a.mu.Unlock()
	if log == nil {
		return a.haltFS.Open(name, options...)
	}
	log.mu.Lock()
	length := log.note.length
	log.mu.Unlock()
	f, err := a.haltFS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return &logPart{File: f, left: length}, nil
}

// OpenDir opens a folder in order to sync its names.
func (a aside) OpenDir(name string) (vfs.File, error) {
	if a.has(name) {
		return a.FS.OpenDir(name)
	}
	return a.haltFS.OpenDir(name)
}

// Link gives a file a second name.
func (a aside) Link(oldName, newName string) error {
	if !a.has(newName) {
		return a.haltFS.Link(oldName, newName)
	}
	err := a.FS.Link(oldName, newName)
	if errors.Is(err, fs.ErrPermission) {
		// This is how some file systems report missing links; Pebble then copies.
		return fmt.Errorf("link %s: %w", newName, errors.ErrUnsupported)
	}
	return err
}

// Rename renames a file.
func (a aside) Rename(oldName, newName string) error {
	if a.has(newName) {
		return a.FS.Rename(oldName, newName)
	}
	return a.haltFS.Rename(oldName, newName)
}

// Remove removes a file.
func (a aside) Remove(name string) error {
	if a.has(name) {
		return a.FS.Remove(name)
	}
	err := a.haltFS.Remove(name)
	a.forget(name)
	return err
}

// MkdirAll creates a folder.
func (a aside) MkdirAll(dir string, mode fs.FileMode) error {
	if a.has(dir) {
		return a.FS.MkdirAll(dir, mode)
	}
	return a.haltFS.MkdirAll(dir, mode)
}

// copied is a file in the backup's folder.
type copied struct {
	vfs.File

	backup *backup
}

// Write appends to the file, unless the backup was stopped.
func (f copied) Write(b []byte) (int, error) {
	if err := f.backup.ended(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// logPart reads a log up to a length.
type logPart struct {
	vfs.File

	left int64
}

// Read reads the next bytes.
func (f *logPart) Read(b []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	return n, err
}
