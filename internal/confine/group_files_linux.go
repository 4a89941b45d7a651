package confine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of control groups are opened relative to the folder's descriptor and with bare
// system calls: package os would register them with the poller, which these file systems
// allow.

// openFile opens a file of the folder at.
func openFile(at int, name string, mode int) (fd int, err error) {
	err = retry(func() (err error) {
		fd, err = unix.Openat(at, name, mode|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// readFile reads a file of the folder at.
func readFile(at int, name string) (string, error) {
	fd, err := openFile(at, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readAll(fd, name)
}

// readAll reads an open file from its start.
func readAll(fd int, name string) (string, error) {
	var text []byte
	for buf := make([]byte, 1024); ; {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Pread(fd, buf, int64(len(text)))
			return err
		})
		if err != nil {
			return "", &os.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return string(text), nil
		}
		text = append(text, buf[:n]...)
	}
}

// readNumber reads a file that holds one number, or "max".
func readNumber(at int, name string) (int64, error) {
	text, err := readFile(at, name)
	if err != nil {
		return 0, err
	}
	return parseNumber(text, name)
}

func parseNumber(text, name string) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// readField reads the number after key in a file with such lines. A missing key or file
// is 0: old kernels count less.
func readField(at int, name, key string) (uint64, error) {
	text, err := readFile(at, name)
	if err != nil {
		return 0, err
	}
	return parseField(text, name, key)
}

func parseField(text, name, key string) (uint64, error) {
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), " "); k == key {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %s: %w", name, key, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

// writeFile writes to a file of the folder at.
func writeFile(at int, name, value string) error {
	fd, err := openFile(at, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeAll(fd, name, value)
}

// writeAll writes to an open file.
func writeAll(fd int, name, value string) error {
	err := retry(func() error {
		_, err := unix.Pwrite(fd, []byte(value), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("%q to %s: %w", value, name, err)
	}
	return nil
}

// writeIfThere is like writeFile, but a missing file is no error.
func writeIfThere(at int, name, value string) error {
	if err := writeFile(at, name, value); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// makeGroup creates a folder that everyone may read, like those of the kernel.
func makeGroup(dir string) error {
	if err := retry(func() error { return unix.Mkdir(dir, 0o755) }); err != nil {
		return &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return nil
}

// subfolders lists the folders in dir by their whole paths. A missing folder has none.
func subfolders(dir string) ([]string, error) {
	var s unix.Stat_t
	err := unix.Stat(dir, &s)
	if err == nil && s.Nlink == 2 { // one link for each folder in it, and two more
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}
