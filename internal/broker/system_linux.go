package broker

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// thisSystem is Linux.
func thisSystem() *system {
	return &system{
		kernel: kernelRelease, fileSystem: fileSystemOf, open: openFolder,
		syncfs: syncfs, space: spaceOf, holds: filesHold,
		inherits: inherits, guard: openGuard,
	}
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// fileSystems are those that are known, by their magic numbers.
var fileSystems = map[int64]fileSystem{
	unix.EXT4_SUPER_MAGIC:  {name: "ext4", groups: true},
	unix.XFS_SUPER_MAGIC:   {name: "xfs", groups: true},
	unix.BTRFS_SUPER_MAGIC: {name: "btrfs", groups: true},
	unix.TMPFS_MAGIC:       {name: "tmpfs", volatile: true, why: "it is memory"},
	unix.RAMFS_MAGIC:       {name: "ramfs", volatile: true, why: "it is memory"},
	unix.OVERLAYFS_SUPER_MAGIC: {name: "overlay",
		why: "its syncfs does not report failed writes of the file system below; put the store on a volume of its own"},
	unix.FUSE_SUPER_MAGIC: {name: "fuse", why: "most of its file systems do not get syncfs"},
	unix.NFS_SUPER_MAGIC:  {name: "nfs", why: "it is a network file system"},
	0x2fc12fc1:            {name: "zfs", why: "its syncfs has not been tried"},
}

func fileSystemOf(dir string) (fileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fileSystem{}, err
	}
	magic := int64(uint32(s.Type)) // the type of the field differs between architectures
	if f, known := fileSystems[magic]; known {
		return f, nil
	}
	return fileSystem{name: fmt.Sprintf("type %#x", magic), why: "this kind of file system has not been tried"}, nil
}

func openFolder(dir string) (int, func() error, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	return fd, func() error { return unix.Close(fd) }, nil
}

// syncfs also looks whether the file system has become read-only, as some do
// after an error: then the kernel has nothing to sync and reports success.
func syncfs(fd int) error {
	if err := unix.Syncfs(fd); err != nil {
		return err
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return err
	}
	if s.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("the file system has become read-only: %w", syscall.EROFS)
	}
	return nil
}

func spaceOf(dir string) (space, bool, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return space{}, false, err
	}
	size := int64(s.Bsize) //nolint:unconvert // the type of the field differs between architectures
	return space{
		free: clamp(s.Bavail, size), total: clamp(s.Blocks, size),
		inodes: clamp(s.Ffree, 1), allInodes: clamp(s.Files, 1),
	}, true, nil
}

// sameDevice tells whether a file is on the file system of fd.
func sameDevice(info os.FileInfo, fd int) bool {
	var folder unix.Stat_t
	file, ok := info.Sys().(*syscall.Stat_t)
	return ok && unix.Fstat(fd, &folder) == nil && uint64(file.Dev) == uint64(folder.Dev) //nolint:unconvert // the type of the field differs between architectures
}
