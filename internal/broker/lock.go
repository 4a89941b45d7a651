package broker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrInUse says that another program, or another part of this one, has the store.
var ErrInUse = errors.New("the store is in use")

// lock takes the store for this process until the file is closed.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(dir, err)
	}
	taken, err := tryLock(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w; put the store on a disk of this machine", f.Name(), err)
	}
	if !taken {
		defer f.Close()
		return nil, inUse(dir, f)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, explain(dir, err)
	}
	return f, nil
}

// inUse says who has the store.
func inUse(dir string, f *os.File) error {
	text, _ := io.ReadAll(io.LimitReader(f, 32)) // without it the holder has no number, that is all
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return fmt.Errorf("%w: another program has %s; end it, or name another folder", ErrInUse, dir)
	case pid == os.Getpid():
		return fmt.Errorf("%w: this program (process %d) has opened %s already; close it first, or share it", ErrInUse, pid, dir)
	}
	return fmt.Errorf("%w: process %d has %s; end it, or name another folder", ErrInUse, pid, dir)
}
