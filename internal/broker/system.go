package broker

import (
	"errors"
	"log/slog"
	"os"
	"strings"
)

// system is what the broker asks of the system below it. Tests put something
// else in its place.
type system struct {
	// kernel returns the release of the kernel, such as "6.1.0-9-amd64".
	kernel func() (string, error)
	// fileSystem returns what kind of file system a folder is on.
	fileSystem func(dir string) (fileSystem, error)
	// open returns a descriptor for syncfs, and what closes it.
	open func(dir string) (fd int, closeFD func() error, err error)
	// syncfs makes all that was written to the file system of fd durable.
	syncfs func(fd int) error
	// space returns what is free on the file system of a folder; ok is false
	// where this is not known.
	space func(dir string) (s space, ok bool, err error)
	// holds tells whether the files below a folder hold some bytes, on the same
	// file system as the folder fd.
	holds func(dir string, fd int, bytes []byte) error
	// inherits returns nil when files that are made in a folder can be made such
	// that each write is a sync. It makes dir for that, and removes it.
	inherits func(dir string) error
	// guard has each file that is made below dir synced by each write, apart from
	// blocks that messages are appended to. It calls moved when a block has gone or
	// was replaced, and gives fail the error when it cannot guard a new folder.
	guard func(dir string, log *slog.Logger, moved func(), fail func(error)) (closeGuard func() error, err error)
}

// fileSystem is a kind of file system.
type fileSystem struct {
	name string
	// groups says that one syncfs makes all writes durable and reports errors.
	groups bool
	// volatile says that nothing survives there at all.
	volatile bool
	why      string // why groups is not set
}

// space is what is free for us on a file system.
type space struct {
	free, total       int64 // bytes
	inodes, allInodes int64 // allInodes is 0 where there is no limit
}

var errNoSyncfs = errors.New("this system has no syncfs")

// bootID names this start of the machine, empty where this is not known.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
