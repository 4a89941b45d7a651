package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// event is what the kernel shall count.
type event struct {
	kind   uint32
	config uint64
}

// hardware counts instructions in user mode: what noise does not change.
var hardware = event{unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS}

// counters count for this process: one for each thread that it has, and, because
// they are inherited, for every thread that those start.
type counters struct{ fds []int }

// openCounters fails where the machine or the kernel has no such counter.
func openCounters(e event) (*counters, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	c := &counters{}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		attr := unix.PerfEventAttr{Type: e.kind, Config: e.config, Bits: unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		attr.Size = uint32(unsafe.Sizeof(attr))
		fd, err := unix.PerfEventOpen(&attr, id, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) {
			continue // that thread has ended
		}
		if err != nil {
			c.close()
			return nil, fmt.Errorf("this machine gives no counters (perf_event_open: %w)", err)
		}
		c.fds = append(c.fds, fd)
	}
	return c, nil
}

// read adds all counters up. It gives 0 for none.
func (c *counters) read() (total uint64) {
	if c == nil {
		return 0
	}
	var b [8]byte
	for _, fd := range c.fds {
		if n, err := unix.Read(fd, b[:]); err == nil && n == len(b) {
			total += binary.NativeEndian.Uint64(b[:])
		}
	}
	return total
}

func (c *counters) close() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
}
