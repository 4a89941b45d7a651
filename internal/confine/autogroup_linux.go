package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// With autogroup, which desktop kernels switch on, the scheduler shares the
// CPUs among sessions first: the nice values of processes count only inside
// their session, and each child is a session. So the session gets the value
// too. Without CAP_SYS_ADMIN the kernel takes one such write per 100 ms from
// the whole machine and refuses the others, so they are tried again.
const (
	autogroupPause = 110 * time.Millisecond
	autogroupTries = 500
)

// autogrouped reports whether the kernel schedules by sessions.
var autogrouped = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	return err == nil && bytes.HasPrefix(text, []byte("1"))
})

// niceSession gives the child's session the nice value n. It is a matter of
// speed only: what fails for good is left.
func (c *Child) niceSession(n, tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	err := writeProc(fmt.Sprintf("/proc/%d/autogroup", c.pid), strconv.Itoa(n))
	if errors.Is(err, unix.EAGAIN) && tries > 1 {
		// Stopped when the child is reaped, and harmless if it fires then.
		c.nicer = time.AfterFunc(autogroupPause, func() { c.niceSession(n, tries-1) })
	}
}

// processState gives the kernel's letter for what a process is doing, as a
// part of a sentence, or nothing.
func processState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndex(text, []byte(") ")); err == nil && i >= 0 && i+2 < len(text) {
		return fmt.Sprintf(" (state %c)", text[i+2])
	}
	return ""
}
