package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// formatVersion is the layout of the store that this program writes.
const formatVersion = 1

// The files of a store.
const (
	lockFile   = "lock"
	formatFile = "format"
	marksFile  = "marks"
	ledgerDir  = "ledger"
	serverDir  = "jetstream" // the server's; it chooses the name
	formatWord = "bullpen-store "
)

// explain says what to do about a folder that cannot be used.
func explain(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not a folder, or is below a file: name a folder for the store: %w", dir, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a file system that is mounted read-only: mount it for writing, or name another folder for the store: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no right to write to %s as user %d: give that user the folder, or name another one for the store: %w", dir, os.Getuid(), err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("no space is left for the store in %s: free some: %w", dir, err)
	}
	return fmt.Errorf("the store in %s: %w", dir, err)
}

// makeFolder makes the folder of the store if it is not there.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return explain(dir, err)
	}
	return nil
}

// checkFormat reads which layout the store has. A store without one is fresh.
func checkFormat(dir string) (fresh bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, serverDir)); err == nil {
			return false, fmt.Errorf("%s holds messages of a server, but no file %q: it is no store of this program; name another folder", dir, formatFile)
		}
		return true, nil
	}
	if err != nil {
		return false, explain(dir, err)
	}
	digits, ours := strings.CutPrefix(strings.TrimSpace(string(text)), formatWord)
	version, err := strconv.Atoi(digits)
	switch {
	case !ours || err != nil || version < 1:
		return false, fmt.Errorf("%s does not say which layout the store has: restore it from a copy, or name another folder", filepath.Join(dir, formatFile))
	case version > formatVersion:
		return false, fmt.Errorf("the store in %s has layout %d, of a newer version of this program, which knows up to %d: use the newer version, or name another folder", dir, version, formatVersion)
	}
	return false, nil
}

// writeFormat makes a fresh store a store.
func writeFormat(dir string) error {
	return replaceFile(filepath.Join(dir, formatFile), []byte(formatWord+strconv.Itoa(formatVersion)+"\n"))
}

// replaceFile puts data in the place of what a file held, in one step that
// survives a loss of power.
func replaceFile(path string, data []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	return moveFile(next, path)
}

// moveFile renames a file in one step that survives a loss of power.
func moveFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}
