package process

import "syscall"

// untouched reports whether the folder is empty and still has its original mode.
func untouched(folder string) bool {
	fd, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd) //nolint:errcheck // it was read only
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil || info.Mode&0o7777 != 0o700 {
		return false
	}
	var buffer [512]byte // room for more entries than . and ..
	n, err := syscall.ReadDirent(fd, buffer[:])
	if err != nil || n <= 0 {
		return false
	}
	_, entries, _ := syscall.ParseDirent(buffer[:n], 1, nil)
	return entries == 0
}
