package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// haltFS is the file system that Pebble sees. A failed write, sync or rename ends the
// engine immediately, and from then on Pebble changes nothing. Otherwise Pebble would,
// depending on the place, end the program, retry forever, or panic with inconsistent
// locks.
type haltFS struct {
	vfs.FS

	engine *Engine
	files  *files
}

// files are the files that Pebble has open.
type files struct {
	// changing is held for reading by calls that change files.
	changing sync.RWMutex

	mu   sync.Mutex
	open map[vfs.File]struct{} // guarded by mu
}

// close closes all files once Pebble is halted and changes nothing more.
func (f *files) close() {
	f.changing.Lock() // waits for calls in progress; no new ones start
	defer f.changing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.open {
		file.Close() // the error is of no use
	}
	clear(f.open)
}

// keep records that a file was opened or closed.
func (f *files) keep(file vfs.File, open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open {
		f.open[file] = struct{}{}
	} else {
		delete(f.open, file)
	}
}

// change calls do, which changes files. It never returns if do fails, or if the engine
// has failed before.
func (g haltFS) change(what, name string, do func() error) {
	g.files.changing.RLock()
	halted := g.engine.isHalted()
	var err error
	if !halted {
		err = do()
	}
	g.files.changing.RUnlock()
	if err != nil {
		g.engine.halt(fmt.Errorf("%s %s: %w", what, name, err))
	}
	if halted {
		select {}
	}
}

func (g haltFS) file(what, name string, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	g.change(what, name, func() (err error) {
		f, err = open()
		return err
	})
	g.files.keep(f, true)
	wrapped := haltFile{f, g, name}
	base := g.PathBase(name)
	if at, ok := noteAt(base); ok {
		return &noted{haltFile: wrapped, at: at, note: note{name: base}}, nil
	}
	return wrapped, nil
}

// Create creates a file.
func (g haltFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("create", name, func() (vfs.File, error) { return g.FS.Create(name, category) })
}

// ReuseForWrite renames a file and opens it for writing.
func (g haltFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("reuse", newName, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldName, newName, category) })
}

// Open opens a file for reading.
func (g haltFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	g.files.keep(f, true)
	return haltFile{f, g, name}, nil
}

// OpenDir opens a folder in order to sync its names.
func (g haltFS) OpenDir(name string) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// Rename renames a file.
func (g haltFS) Rename(oldName, newName string) error {
	g.change("rename", oldName, func() error { return g.FS.Rename(oldName, newName) })
	return nil
}

// Remove removes a file. A file that stays does no harm.
func (g haltFS) Remove(name string) (err error) {
	g.change("remove", name, func() error {
		err = g.FS.Remove(name)
		return nil
	})
	return err
}

// MkdirAll creates a folder.
func (g haltFS) MkdirAll(dir string, mode os.FileMode) error {
	g.change("make", dir, func() error { return g.FS.MkdirAll(dir, mode) })
	return nil
}

// Lock locks nothing: the engine locks the folder above, and can unlock it even after
// Pebble has halted.
func (haltFS) Lock(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }

// GetDiskUsage reports failures as unsupported: Pebble would take an error for a failed
// write.
func (g haltFS) GetDiskUsage(dir string) (vfs.DiskUsage, error) {
	usage, err := g.FS.GetDiskUsage(dir)
	if err != nil {
		return usage, vfs.ErrUnsupported
	}
	return usage, nil
}

// haltFile is an open file.
type haltFile struct {
	vfs.File

	of   haltFS
	name string
}

// Close closes the file.
func (f haltFile) Close() error {
	f.of.files.keep(f.File, false)
	return f.File.Close()
}

// ReadAt reads at an offset.
func (f haltFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) && compacting() {
		f.of.engine.halt(fmt.Errorf("read %s: %w", f.name, err))
	}
	return n, err
}

// Write appends to the file.
func (f haltFile) Write(b []byte) (n int, err error) {
	f.of.change("write", f.name, func() (err error) {
		n, err = f.File.Write(b)
		return err
	})
	return n, nil
}

// WriteAt writes at an offset.
func (f haltFile) WriteAt(b []byte, at int64) (n int, err error) {
	f.of.change("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, nil
}

// Sync makes the file survive a loss of power.
func (f haltFile) Sync() error {
	f.of.change("sync", f.name, f.File.Sync)
	return nil
}

// SyncData is like Sync, without the metadata of the file.
func (f haltFile) SyncData() error {
	f.of.change("sync", f.name, f.File.SyncData)
	return nil
}

// SyncTo syncs the file up to a length.
func (f haltFile) SyncTo(length int64) (whole bool, err error) {
	f.of.change("sync", f.name, func() (err error) {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, nil
}
