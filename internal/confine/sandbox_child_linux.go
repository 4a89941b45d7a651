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

// SetOOMScore makes the process more likely than this one to be killed when memory runs
// out, by delta; 1000 means certainly. Processes that it starts later inherit the score.
// It returns os.ErrProcessDone when the process has been waited for.
func (c *Child) SetOOMScore(delta int) error {
	if delta < 0 {
		return fmt.Errorf("confine: OOM score %d: it can only be raised", delta)
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

// ownOOMScore returns the score of this process as of its first call.
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

// writeProc writes to an existing file. An os.File would first try the poller, which
// supports no file of /proc.
func writeProc(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// noCore keeps the process from leaving core files. The limit is 1 byte instead of 0: too
// small for any file, and the only value at which the kernel does not call a program that
// collects cores either.
func (c *Child) noCore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		// Fails only if the process now belongs to another user, and may not be
		// controlled.
		_ = unix.Prlimit(c.pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	}
}
