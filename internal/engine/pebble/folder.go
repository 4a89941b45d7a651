package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the layout of the folder that this program writes. Layout 1 is that of
// the embedded NATS server.
const formatVersion = 2

// The files of a store.
const (
	formatFile   = "format"
	lockFile     = "lock"
	holderFile   = "holder"
	handoutsFile = "hands"
	sealFile     = "closed"
	syncedFile   = "synced"
	dataDir      = "data"
	serverDir    = "jetstream" // of layout 1
	formatWord   = "bullpen-store "
)

// ErrInUse means that another program, or another part of this one, uses the store.
var ErrInUse = errors.New("the store is in use")

// folder is the folder of a store.
type folder struct {
	fs  vfs.FS
	dir string
}

func (f folder) path(name string) string { return f.fs.PathJoin(f.dir, name) }

// explain adds to an error what to do about a folder that cannot be used.
func (f folder) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not a folder, or is below a file: name a folder for the store: %w", f.dir, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a file system that is mounted read-only: mount it for writing, or name another folder for the store: %w", f.dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to write to %s as user %d: make that user the owner of the folder, or name another one for the store: %w", f.dir, os.Getuid(), err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("no disk space is left for the store in %s: free some: %w", f.dir, err)
	}
	return fmt.Errorf("the store in %s: %w", f.dir, err)
}

// lock locks the folder for this process until the result is closed.
func (f folder) lock() (io.Closer, error) {
	if info, err := f.fs.Stat(f.dir); err == nil && !info.IsDir() {
		return nil, f.explain(syscall.ENOTDIR)
	}
	if err := f.make(); err != nil {
		return nil, f.explain(err)
	}
	held, err := f.fs.Lock(f.path(lockFile))
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
			return nil, f.explain(err)
		}
		return nil, f.inUse(err)
	}
	if err := f.write(holderFile, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(f.explain(err), held.Close())
	}
	return held, nil
}

// make creates the folder if it does not exist, so that it survives a loss of power.
func (f folder) make() error {
	var missing []string
	for dir := f.dir; ; dir = f.fs.PathDir(dir) {
		if _, err := f.fs.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, f.fs.PathDir(dir))
		if f.fs.PathDir(dir) == dir {
			break
		}
	}
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	for _, parent := range missing {
		// A folder that can be entered is not always readable.
		if err := (folder{f.fs, parent}).sync(); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// inUse returns an error that names the program that uses the store.
func (f folder) inUse(cause error) error {
	text, _ := f.read(holderFile) // if this fails, the error lacks the process id
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return fmt.Errorf("%w: another program uses %s; end it, or name another folder (%w)", ErrInUse, f.dir, cause)
	case pid == os.Getpid():
		return fmt.Errorf("%w: this program (process %d) has already opened %s; close it first, or share it", ErrInUse, pid, f.dir)
	}
	return fmt.Errorf("%w: process %d uses %s; end it, or name another folder", ErrInUse, pid, f.dir)
}

// checkFormat reads the layout of the folder, and makes it a store if it has none.
func (f folder) checkFormat() error {
	text, err := f.read(formatFile)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{dataDir, serverDir} {
			if _, err := f.fs.Stat(f.path(name)); err == nil {
				return fmt.Errorf("%s has the data of a store, but no file %q with its layout: restore the folder from a backup, or name another folder", f.dir, formatFile)
			}
		}
		return f.explain(f.replace(formatFile, layoutText(formatVersion)))
	}
	if err != nil {
		return f.explain(err)
	}
	version := layoutOf(text)
	switch {
	case version == 0:
		return fmt.Errorf("%s has no layout number of the store: restore it from a backup, or name another folder", f.path(formatFile))
	case version > formatVersion:
		return fmt.Errorf("the store in %s has layout %d, of a newer version of this program; this version reads layouts up to %d: use the newer version, or name another folder", f.dir, version, formatVersion)
	case version < formatVersion:
		return fmt.Errorf("the store in %s has layout %d, in which releases up to 0.1 kept jobs with an embedded NATS server; this release does not read it. "+
			"Run the release that wrote it until its queues are empty (stop what enqueues; outcomes and dead jobs stay behind), then move the folder away, or name another one for the new store", f.dir, version)
	}
	return nil
}

// layoutText returns the content of the format file for a layout.
func layoutText(version int) []byte { return fmt.Appendf(nil, "%s%d\n", formatWord, version) }

// layoutOf returns the layout that a format file names, 0 for none.
func layoutOf(text []byte) int {
	digits, _ := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), formatWord)
	version, err := strconv.Atoi(digits)
	if err != nil || version < 1 || !bytes.Equal(text, layoutText(version)) {
		return 0
	}
	return version
}

func (f folder) read(name string) ([]byte, error) {
	file, err := f.fs.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

func (f folder) write(name string, data []byte) error {
	file, err := f.fs.Create(f.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// replace replaces the content of a file by data, in one step that survives a loss of
// power.
func (f folder) replace(name string, data []byte) error {
	next := name + ".new"
	if err := f.write(next, data); err != nil {
		return err
	}
	if err := f.fs.Rename(f.path(next), f.path(name)); err != nil {
		return err
	}
	return f.sync()
}

// sync makes all files created, renamed and removed in the folder survive a loss of
// power.
func (f folder) sync() error {
	dir, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
