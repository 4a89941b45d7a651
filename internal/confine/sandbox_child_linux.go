package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const mostOOMScore = 1000

// SetOOMScore makes the process more likely to be killed when memory runs out
// than this one, by delta, of which 1000 means for certain. What it starts
// later inherits that. It returns os.ErrProcessDone when the process has been
// waited for.
func (c *Child) SetOOMScore(delta int) error {
	if delta < 0 {
		return fmt.Errorf("confine: OOM score %d: it can be raised only", delta)
	}
	own, err := ownOOMScore()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	score := strconv.Itoa(own + min(delta, mostOOMScore-own))
	if err := writeProc(fmt.Sprintf("/proc/%d/oom_score_adj", c.pid), score); err != nil {
		return fmt.Errorf("confine: OOM score of process %d: %w", c.pid, err)
	}
	return nil
}

// ownOOMScore is the score of this process when it was first asked for.
var ownOOMScore = sync.OnceValues(func() (int, error) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0, fmt.Errorf("confine: OOM score: %w", err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("confine: OOM score: %w", err)
	}
	return own, nil
})

// writeProc writes to a file that exists. An os.File would ask the poller first, which
// takes none of /proc.
func writeProc(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// noCore keeps the process from leaving cores. 1 byte instead of 0: too small
// for any file, and the one value with which the kernel calls no program that
// collects cores either.
func (c *Child) noCore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		// Fails only if the process has become another user's, who may not
		// be told what to do.
		_ = unix.Prlimit(c.pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	}
}
