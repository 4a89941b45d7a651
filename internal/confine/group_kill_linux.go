package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killBatch bounds the descriptors that killing needs at a time.
	killBatch = 256
	// killPause is the pause between two checks of killed processes that remain.
	killPause = time.Millisecond
	// killLook bounds the wait for killed processes before looking for what they have
	// started meanwhile.
	killLook = 20 * time.Millisecond
	// killAgain is the same for a group that is killed as one, which only processes that
	// enter from outside escape.
	killAgain = 100 * time.Millisecond
	// killGrace bounds Kill, and sweepGrace the removal of each folder of a dead host.
	killGrace  = time.Second
	sweepGrace = time.Second
)

// endAll kills all processes in the groups dirs and below them, again and again until
// none is left, or until the deadline. It reports whether there were any.
func endAll(dirs []string, deadline time.Time) (found bool, err error) {
	for {
		var left []string
		for _, dir := range dirs {
			some, err := endOnce(dir, deadline)
			if err != nil {
				return found, fmt.Errorf("confine: killing what is in %s: %w", dir, err)
			}
			left = append(left, some...)
		}
		if len(left) == 0 {
			return found, nil
		}
		found = true
		if !time.Now().Before(deadline) {
			return found, fmt.Errorf("confine: still alive after being killed: %s", strings.Join(left, ", "))
		}
		<-time.After(killPause) // v1 does not notify when the last process has left
	}
}

// endOnce kills all processes in dir and returns their names.
func endOnce(dir string, deadline time.Time) (left []string, err error) {
	fd, err := openFolder(unix.AT_FDCWD, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if unix.Faccessat(fd, "cgroup.kill", unix.F_OK, 0) == nil {
		return endAsOne(fd, dir, deadline)
	}
	pids, err := procsBelow(dir)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if state, _, err := stateOf(pid); err == nil {
			left = append(left, fmt.Sprintf("process %d (state %s) in %s", pid, state, dir))
		} else {
			left = append(left, fmt.Sprintf("process %d in %s", pid, dir))
		}
	}
	for len(pids) > 0 {
		n := min(len(pids), killBatch)
		killListed(pids[:n], memberOf(dir), min(time.Until(deadline), killLook))
		pids = pids[n:]
	}
	return left, nil
}

// endAsOne is endOnce for a group of v2 since Linux 5.14: the kernel kills all processes
// in it and below at once. It does not if there are none: see [Group.Kill].
func endAsOne(fd int, dir string, deadline time.Time) (left []string, err error) {
	events, err := openFile(fd, "cgroup.events", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(events)
	if again := deadlineIn(killAgain); again.Before(deadline) {
		deadline = again
	}
	for {
		text, err := readAll(events, "cgroup.events")
		if errors.Is(err, unix.ENODEV) {
			return left, nil // removed
		}
		if err != nil {
			return nil, err
		}
		if n, err := parseField(text, "cgroup.events", "populated"); err != nil || n == 0 {
			return left, err
		}
		if left == nil {
			if err := writeFile(fd, "cgroup.kill", "1"); err != nil {
				return nil, err
			}
			left = []string{"processes in " + dir}
		}
		wait := time.Until(deadline)
		if wait <= 0 {
			pids, err := procsBelow(dir)
			return []string{fmt.Sprintf("processes %v in %s", pids, dir)}, err
		}
		poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, wait)
	}
}

// killListed kills those of pids for which member returns true, and waits a while for
// their end. It never kills this process, which v1 lists while one of its threads is in
// the group.
func killListed(pids []int, member func(pid int) bool, wait time.Duration) {
	var fds []unix.PollFd
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // the process has ended
		}
		// Only now is it certain that the number belongs to the same process.
		if !member(pid) || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
			unix.Close(fd)
			continue
		}
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	end := deadlineIn(wait)
	for i := range fds {
		poll(fds[i:i+1], time.Until(end))
		unix.Close(int(fds[i].Fd))
	}
}

// poll waits for one of fds, for at most wait, rounded up.
func poll(fds []unix.PollFd, wait time.Duration) {
	if wait < 0 {
		wait = 0
	}
	// Interrupted or failed: the caller checks the processes anyway.
	_, _ = unix.Poll(fds, int((wait + time.Millisecond - 1).Milliseconds()))
}

// memberOf returns a function that reports whether a process is in the group dir or below
// it. If that cannot be read, the list that named the process is trusted.
func memberOf(dir string) func(pid int) bool {
	// The path as the process sees it may begin differently, but from the host's folder
	// on it is the same, and that folder has a unique name.
	mark := "/" + filepath.Base(dir)
	for d := dir; len(d) > 1; d = filepath.Dir(d) {
		if ownedName(filepath.Base(d)) {
			mark = "/" + filepath.Base(d) + strings.TrimPrefix(dir, d)
			break
		}
	}
	return func(pid int) bool {
		text, err := readFile(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH)
		}
		return strings.Contains(text, mark+"\n") || strings.Contains(text, mark+"/")
	}
}

// procsBelow lists the processes in a group and below it.
func procsBelow(dir string) ([]int, error) {
	pids, err := procsIn(dir)
	if err != nil {
		return nil, err
	}
	below, err := subfolders(dir)
	for _, d := range below {
		more, moreErr := procsBelow(d)
		pids, err = append(pids, more...), errors.Join(err, moreErr)
	}
	return pids, err
}

// procsIn lists the processes in a group. It opens the file anew each time, because v1
// keeps the list for an open file for a second. A missing group has none.
func procsIn(dir string) ([]int, error) {
	text, err := readFile(unix.AT_FDCWD, filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(text) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// deadlineIn returns the time after a while.
func deadlineIn(while time.Duration) time.Time { return time.Now().Add(while) }

// removeGroups removes a group and all below it, and kills the processes in them, until
// the deadline.
func removeGroups(dir string, deadline time.Time) error {
	for {
		err := removeEmpty(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || !time.Now().Before(deadline) {
			return err
		}
		if _, err := endAll([]string{dir}, deadline); err != nil {
			return err
		}
		<-time.After(killPause) // processes that have just ended still count
	}
}

// removeEmpty removes a group and all below it if they have no processes.
func removeEmpty(dir string) error {
	rmdir := func() error { return retry(func() error { return unix.Rmdir(dir) }) }
	err := rmdir()
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		below, listErr := subfolders(dir)
		if listErr != nil {
			return fmt.Errorf("confine: %w", listErr)
		}
		for _, d := range below {
			if err := removeEmpty(d); err != nil {
				return err
			}
		}
		err = rmdir()
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("confine: control group: %w", &os.PathError{Op: "rmdir", Path: dir, Err: err})
}
