package broker

import "golang.org/x/sys/unix"

func spaceOf(dir string) (space, bool, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return space{}, false, err
	}
	return space{free: clamp(s.Bavail, int64(s.Bsize)), total: clamp(s.Blocks, int64(s.Bsize))}, true, nil
}
