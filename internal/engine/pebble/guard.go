package pebble

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system that Pebble sees: a write, a sync or a new name that fails
// ends the engine there and then. Pebble would end the program, try again for ever, or
// panic with its locks in disorder, by turns.
type guard struct {
	vfs.FS

	halt func(error)
}

func (g guard) sound(what, name string, err error) {
	if err != nil {
		g.halt(fmt.Errorf("%s %s: %w", what, name, err))
	}
}

func (g guard) file(what, name string, f vfs.File, err error) (vfs.File, error) {
	g.sound(what, name, err)
	return guarded{f, g, name}, nil
}

// Create makes a file.
func (g guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, category)
	return g.file("create", name, f, err)
}

// ReuseForWrite renames a file and opens it.
func (g guard) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(oldName, newName, category)
	return g.file("reuse", newName, f, err)
}

// OpenDir opens a folder, whose names are then synced.
func (g guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	return g.file("open", name, f, err)
}

// Rename gives a file another name.
func (g guard) Rename(oldName, newName string) error {
	g.sound("rename", oldName, g.FS.Rename(oldName, newName))
	return nil
}

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

func (f guarded) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.of.sound("write", f.name, err)
	return n, nil
}

func (f guarded) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.of.sound("write", f.name, err)
	return n, nil
}

func (f guarded) Sync() error {
	f.of.sound("sync", f.name, f.File.Sync())
	return nil
}

func (f guarded) SyncData() error {
	f.of.sound("sync", f.name, f.File.SyncData())
	return nil
}

func (f guarded) SyncTo(length int64) (bool, error) {
	whole, err := f.File.SyncTo(length)
	f.of.sound("sync", f.name, err)
	return whole, nil
}
