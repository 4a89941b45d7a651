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
	// killBatch bounds the descriptors that killing needs at one time.
	killBatch = 256
	// killPause is between two looks at what was killed and is still there.
	killPause = time.Millisecond
	// killLook bounds the wait for the end of what was killed before looking
	// for what it has started meanwhile.
	killLook = 20 * time.Millisecond
	// killAgain is the same for a group that is killed as one, which only
	// those escape who come in from outside.
	killAgain = 100 * time.Millisecond
	// killGrace bounds Kill, and sweepGrace the removal of each folder of a
	// dead host.
	killGrace  = time.Second
	sweepGrace = time.Second
)

// endAll kills what is in the groups dirs and below them, again until nobody
// is left, or until the deadline. It tells whether anybody was there.
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
			return found, fmt.Errorf("confine: not dead in spite of being killed: %s", strings.Join(left, ", "))
		}
		<-time.After(killPause) // v1 has nothing that tells when the last has left
	}
}

// endOnce kills what is in dir and names who was there.
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

// endAsOne is endOnce for a group of v2 since Linux 5.14, where the kernel
// kills all at once, with all below. It does not if nobody is there: see
// [Group.Kill].
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

// killListed kills those of pids for which member holds and waits a while for
// their end. It never kills this process, which is listed by v1 while one of
// its threads is there.
func killListed(pids []int, member func(pid int) bool, wait time.Duration) {
	var fds []unix.PollFd
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // has ended
		}
		// Only now it is sure that the number stays with the same process.
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

// poll waits for one of fds, at most as long as wait, rounded up.
func poll(fds []unix.PollFd, wait time.Duration) {
	if wait < 0 {
		wait = 0
	}
	// Interrupted or failed: whoever calls looks at what has become of it.
	_, _ = unix.Poll(fds, int((wait + time.Millisecond - 1).Milliseconds()))
}

// memberOf gives a function that tells whether a process is in the group dir
// or below it. Where that cannot be read, the list from which the process was
// taken is believed.
func memberOf(dir string) func(pid int) bool {
	// The path as the process sees it may begin elsewhere, but from our
	// folder on it is the same, and that has a name of its own.
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

// procsIn lists the processes in a group. The file is opened anew each time:
// v1 keeps what it has listed for an open file for a second. A group that is
// gone has none.
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

// deadlineIn is the time after a while.
func deadlineIn(while time.Duration) time.Time { return time.Now().Add(while) }

// removeGroups removes a group and all below it, and kills what is in them,
// until the deadline.
func removeGroups(dir string, deadline time.Time) error {
	for {
		err := removeEmpty(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || !time.Now().Before(deadline) {
			return err
		}
		if _, err := endAll([]string{dir}, deadline); err != nil {
			return err
		}
		<-time.After(killPause) // what has just ended is still accounted for
	}
}

// removeEmpty removes a group and all below it if nobody is there.
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
