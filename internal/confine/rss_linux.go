package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageSize = int64(os.Getpagesize())

// RSS returns the resident memory of a process in bytes, including pages shared with
// others; 0 if the process has ended but was not waited for. It costs about 7
// microseconds and no allocation. If the process does not exist, the error is
// os.ErrProcessDone.
func RSS(pid int) (int64, error) {
	var path [32]byte
	p := append(path[:0], "/proc/"...)
	p = strconv.AppendInt(p, int64(pid), 10)
	p = append(p, "/statm\x00"...)
	at := unix.AT_FDCWD
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&p[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0, rssError(pid, errno)
	}
	var text [128]byte
	// Not unix.Read: its annotations for the race detector would move text to the heap.
	n, _, errno := unix.Syscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	unix.Close(int(fd))
	if errno != 0 {
		return 0, rssError(pid, errno)
	}
	pages, ok := secondNumber(text[:n])
	if !ok {
		return 0, fmt.Errorf("confine: memory of process %d: the kernel says %q", pid, string(text[:n]))
	}
	return pages * pageSize, nil
}

func rssError(pid int, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return fmt.Errorf("confine: memory of process %d: %w", pid, err)
}

// secondNumber parses the second of the numbers in text.
func secondNumber(text []byte) (n int64, ok bool) {
	i := 0
	for i < len(text) && text[i] != ' ' {
		i++
	}
	for i++; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if n > 1<<50 {
			return 0, false
		}
		n, ok = n*10+int64(text[i]-'0'), true
	}
	return n, ok
}
