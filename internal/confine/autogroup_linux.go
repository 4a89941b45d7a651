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

// With autogroup, which desktop kernels enable, the scheduler first shares the CPUs among
// sessions: nice values count only within a session, and each child is a session. So the
// session gets the nice value too. Without CAP_SYS_ADMIN the kernel accepts one such
// write per 100 ms on the whole machine and refuses the others, so they are retried.
const (
	autogroupPause = 110 * time.Millisecond
	autogroupTries = 500
)

// autogrouped reports whether the kernel schedules by sessions.
var autogrouped = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	return err == nil && bytes.HasPrefix(text, []byte("1"))
})

// niceSession gives the child's session the nice value n. It only affects speed, so a
// lasting failure is ignored.
func (c *Child) niceSession(n, tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	err := writeProc(fmt.Sprintf("/proc/%d/autogroup", c.pid), strconv.Itoa(n))
	if errors.Is(err, unix.EAGAIN) && tries > 1 {
		// Stopped when the child is reaped; harmless if it fires at that moment.
		c.nicer = time.AfterFunc(autogroupPause, func() { c.niceSession(n, tries-1) })
	}
}

// hurrySessionLocked gives the child's session the usual nice value again, so that the
// child, which was killed, dies soon. c.mu is held.
func (c *Child) hurrySessionLocked() {
	if !autogrouped() {
		return
	}
	if c.nicer != nil {
		c.nicer.Stop()
	}
	_ = writeProc(fmt.Sprintf("/proc/%d/autogroup", c.pid), "0") // may not be permitted
}

// processState returns the kernel's letter for the state of a process, as part of a
// sentence, or nothing.
func processState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndex(text, []byte(") ")); err == nil && i >= 0 && i+2 < len(text) {
		return fmt.Sprintf(" (state %c)", text[i+2])
	}
	return ""
}
