package pebble

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system that Pebble sees: a write, a sync or a new name that fails
// ends the engine there and then, and from then on Pebble changes nothing any more.
// After a failure it would end the program, try again for ever, or panic with its locks
// in disorder, by turns.
type guard struct {
	vfs.FS

	engine *Engine
	// changing is held for reading by what changes files.
	changing *sync.RWMutex
}

// change does what changes files, and does not return when that fails, or when
// something has failed before.
func (g guard) change(what, name string, do func() error) {
	g.changing.RLock()
	halted := g.engine.isHalted()
	var err error
	if !halted {
		err = do()
	}
	g.changing.RUnlock()
	if err != nil {
		g.engine.halt(fmt.Errorf("%s %s: %w", what, name, err))
	}
	if halted {
		select {}
	}
}

func (g guard) file(what, name string, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	g.change(what, name, func() (err error) {
		f, err = open()
		return err
	})
	return guarded{f, g, name}, nil
}

// Create makes a file.
func (g guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("create", name, func() (vfs.File, error) { return g.FS.Create(name, category) })
}

// ReuseForWrite renames a file and opens it.
func (g guard) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("reuse", newName, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldName, newName, category) })
}

// OpenDir opens a folder, whose names are then synced.
func (g guard) OpenDir(name string) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// Rename gives a file another name.
func (g guard) Rename(oldName, newName string) error {
	g.change("rename", oldName, func() error { return g.FS.Rename(oldName, newName) })
	return nil
}

// Remove removes a file. One that stays is no harm.
func (g guard) Remove(name string) (err error) {
	g.change("remove", name, func() error {
		err = g.FS.Remove(name)
		return nil
	})
	return err
}

// MkdirAll makes a folder.
func (g guard) MkdirAll(dir string, mode os.FileMode) error {
	g.change("make", dir, func() error { return g.FS.MkdirAll(dir, mode) })
	return nil
}

// Lock locks nothing: the folder above is locked, and given free when Pebble has
// halted and cannot give anything free.
func (guard) Lock(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }

// GetDiskUsage says that it cannot tell where it fails: Pebble takes that for a failed
// write.
func (g guard) GetDiskUsage(dir string) (vfs.DiskUsage, error) {
	usage, err := g.FS.GetDiskUsage(dir)
	if err != nil {
		return usage, vfs.ErrUnsupported
	}
	return usage, nil
}

// guarded is a file that is written.
type guarded struct {
	vfs.File

	of   guard
	name string
}

func (f guarded) Write(b []byte) (n int, err error) {
	f.of.change("write", f.name, func() (err error) {
		n, err = f.File.Write(b)
		return err
	})
	return n, nil
}

func (f guarded) WriteAt(b []byte, at int64) (n int, err error) {
	f.of.change("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, nil
}

func (f guarded) Sync() error {
	f.of.change("sync", f.name, f.File.Sync)
	return nil
}

func (f guarded) SyncData() error {
	f.of.change("sync", f.name, f.File.SyncData)
	return nil
}

func (f guarded) SyncTo(length int64) (whole bool, err error) {
	f.of.change("sync", f.name, func() (err error) {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, nil
}
