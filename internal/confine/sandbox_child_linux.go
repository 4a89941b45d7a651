package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return fmt.Errorf("confine: OOM score: %w", err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("confine: OOM score: %w", err)
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

// writeProc writes to a file that exists.
func writeProc(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
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
