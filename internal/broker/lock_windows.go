package broker

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks f if nobody else has. It locks a byte far behind the content,
// which others may still read.
func tryLock(f *os.File) (bool, error) {
	place := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, place)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
