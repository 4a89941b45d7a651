package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archive writes the file system that the kernel unpacks into memory: a cpio
// archive of the kind "newc", all of it owned by root. The first error stays.
type archive struct {
	out     io.Writer
	written int64
	files   int
	folders map[string]bool // those that are in it
	err     error
}

func newArchive(out io.Writer) *archive {
	return &archive{out: out, folders: map[string]bool{".": true}}
}

// The types of entries, as in the mode of stat(2).
const (
	typeFolder = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
)

// folder adds a folder and those above it.
func (a *archive) folder(name string) {
	name = entryName(name)
	if a.folders[name] {
		return
	}
	a.folder(path.Dir(name))
	a.folders[name] = true
	a.entry(name, typeFolder|0o755, nil)
}

// file adds a file, and the folders above it.
func (a *archive) file(name string, perm fs.FileMode, content []byte) {
	name = entryName(name)
	a.folder(path.Dir(name))
	a.entry(name, typeFile|uint32(perm.Perm()), content)
}

// link adds a symbolic link, and the folders above it.
func (a *archive) link(name, target string) {
	name = entryName(name)
	a.folder(path.Dir(name))
	a.entry(name, typeLink|0o777, []byte(target))
}

// copyFile adds a file of the host.
func (a *archive) copyFile(name, from string) { a.fail(a.tryFile(name, from)) }

// tryFile is copyFile for a file that may be missing: the error is of reading it.
func (a *archive) tryFile(name, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	a.file(name, info.Mode(), content)
	return nil
}

// copyTree adds a folder of the host with all in it, except hidden folders and
// what is removed at that moment.
func (a *archive) copyTree(name, from string) {
	err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if p != from && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		in := path.Join(name, filepath.ToSlash(rel))
		switch {
		case e.IsDir() && p != from && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.IsDir():
			a.folder(in)
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			a.link(in, target)
		case e.Type().IsRegular():
			if err := a.tryFile(in, p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return a.err
	})
	a.fail(err)
}

// close ends the archive.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

// entryName makes a name as it stands in an archive, relative to its root.
func entryName(name string) string {
	return path.Clean(strings.TrimLeft(filepath.ToSlash(name), "/"))
}

// entry writes a header of 110 characters, the name and the content, each filled
// up to a multiple of four bytes.
func (a *archive) entry(name string, mode uint32, content []byte) {
	a.files++
	fields := []any{
		a.files, mode, 0, 0, 1, 0, // inode, mode, user, group, links, time
		len(content), 0, 0, 0, 0, // size, four halves of device numbers
		len(name) + 1, 0, // size of the name with its zero byte, no checksum
	}
	a.write([]byte("070701" + fmt.Sprintf(strings.Repeat("%08X", len(fields)), fields...) + name + "\x00"))
	a.pad()
	a.write(content)
	a.pad()
}

func (a *archive) pad() { a.write(make([]byte, -a.written&3)) }

func (a *archive) write(b []byte) {
	if a.err != nil {
		return
	}
	n, err := a.out.Write(b)
	a.written += int64(n)
	a.fail(err)
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
