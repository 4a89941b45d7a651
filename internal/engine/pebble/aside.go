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

// aside is the file system that Pebble sees: that of the store, which is guarded, and
// beside it the folder of a backup. There a write that fails ends the backup and not the
// engine, and what is written is not noted as that of the store.
type aside struct {
	guard

	*backup
}

// backup is the one that is being made, if there is one.
type backup struct {
	one  sync.Mutex      // held while one is made
	stop <-chan struct{} // closed when the engine is being closed

	mu   sync.Mutex
	ctx  context.Context   //nolint:containedctx // of the call of Backup; +checklocks:mu
	dir  string            // its folder, empty without one; +checklocks:mu
	logs map[string]*noted // those of the store that this process has made; +checklocks:mu
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

// ended says why the backup is to be given up.
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

// has reports whether a path is that of the backup, or below it.
func (a aside) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == "" {
		return false
	}
	return path == a.dir || strings.HasPrefix(path, strings.TrimSuffix(a.PathJoin(a.dir, "x"), "x"))
}

// note keeps which log a file is.
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

// Create makes a file.
func (a aside) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !a.has(name) {
		f, err := a.guard.Create(name, category)
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

// ReuseForWrite renames a file and opens it.
func (a aside) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := a.guard.ReuseForWrite(oldName, newName, category)
	a.forget(oldName)
	a.note(newName, f)
	return f, err
}

// Open opens a file for reading. Pebble reads a log that it writes for a backup only:
// that ends where the log ended at this moment. Behind that there is what another log
// has left whose file this one has taken over, and it is written over meanwhile.
func (a aside) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	if a.has(name) {
		return a.FS.Open(name, options...)
	}
	a.mu.Lock()
	log := a.logs[name]
	a.mu.Unlock()
	if log == nil {
		return a.guard.Open(name, options...)
	}
	log.mu.Lock()
	length := log.note.length
	log.mu.Unlock()
	f, err := a.guard.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return &logPart{File: f, left: length}, nil
}

// OpenDir opens a folder, whose names are then synced.
func (a aside) OpenDir(name string) (vfs.File, error) {
	if a.has(name) {
		return a.FS.OpenDir(name)
	}
	return a.guard.OpenDir(name)
}

// Link gives a file a second name.
func (a aside) Link(oldName, newName string) error {
	if !a.has(newName) {
		return a.guard.Link(oldName, newName)
	}
	err := a.FS.Link(oldName, newName)
	if errors.Is(err, fs.ErrPermission) {
		// So some file systems say that they have no links; then it is copied.
		return fmt.Errorf("link %s: %w", newName, errors.ErrUnsupported)
	}
	return err
}

// Rename gives a file another name.
func (a aside) Rename(oldName, newName string) error {
	if a.has(newName) {
		return a.FS.Rename(oldName, newName)
	}
	return a.guard.Rename(oldName, newName)
}

// Remove removes a file.
func (a aside) Remove(name string) error {
	if a.has(name) {
		return a.FS.Remove(name)
	}
	err := a.guard.Remove(name)
	a.forget(name)
	return err
}

// MkdirAll makes a folder.
func (a aside) MkdirAll(dir string, mode fs.FileMode) error {
	if a.has(dir) {
		return a.FS.MkdirAll(dir, mode)
	}
	return a.guard.MkdirAll(dir, mode)
}

// copied is a file of a backup.
type copied struct {
	vfs.File

	backup *backup
}

// Write writes on, unless the backup was given up.
func (f copied) Write(b []byte) (int, error) {
	if err := f.backup.ended(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// logPart is a log up to a length.
type logPart struct {
	vfs.File

	left int64
}

// Read reads on.
func (f *logPart) Read(b []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	return n, err
}
