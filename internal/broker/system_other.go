//go:build !linux

package broker

import (
	"log/slog"
	"os"
)

// thisSystem has no syncfs, so that the server has to sync each message.
func thisSystem() *system {
	return &system{
		kernel:     func() (string, error) { return "", errNoSyncfs },
		fileSystem: func(string) (fileSystem, error) { return fileSystem{}, errNoSyncfs },
		open:       func(string) (int, func() error, error) { return -1, nil, errNoSyncfs },
		syncfs:     func(int) error { return errNoSyncfs },
		space:      spaceOf,
		holds:      filesHold,
		inherits:   func(string) error { return errNoSyncfs },
		guard:      func(string, *slog.Logger, func(), func(error)) (func() error, error) { return nil, errNoSyncfs },
	}
}

func sameDevice(os.FileInfo, int) bool { return false }
