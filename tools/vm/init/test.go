//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/tools/vm/errand"
)

// patience is how long the processes that a test left may take to end.
const patience = 10 * time.Second

// runTest runs the test and takes in its orphans. What it left behind is an error
// of its own; err is of the machine.
func runTest(e errand.Errand, out *os.File) (status syscall.WaitStatus, left, err error) {
	group, err := makePlace(e.Place)
	if err != nil {
		return 0, nil, fmt.Errorf("the place %q: %w", e.Place, err)
	}
	before, err := groupsBelow(group)
	if err != nil {
		return 0, nil, err
	}
	pid, err := start(e, group, out)
	if err != nil {
		return 0, nil, err
	}
	ended, orphans := make(chan syscall.WaitStatus, 1), make(chan error, 1)
	go reap(pid, ended, orphans) // ends with the last child, or with the machine
	status = <-ended
	select {
	case err := <-orphans:
		if !errors.Is(err, syscall.ECHILD) {
			return status, nil, err
		}
	case <-time.After(patience):
		left = children()
	}
	after, err := groupsBelow(group)
	if err != nil {
		return status, left, err
	}
	for _, dir := range after {
		if !slices.Contains(before, dir) && filepath.Base(dir) != hostGroup {
			left = errors.Join(left, fmt.Errorf("control group %s", dir))
		}
	}
	return status, left, nil
}

// hostGroup is the control group into which a host moves itself, because one that
// hands controllers down must be empty. It is in there until it has ended, so it
// cannot remove it.
const hostGroup = "bullpen-host"

// makePlace makes the control group in which the test is to run.
func makePlace(place errand.Place) (group string, err error) {
	if place == errand.Root {
		return groups, nil
	}
	group = filepath.Join(groups, "tests")
	if err := os.Mkdir(group, 0o755); err != nil {
		return "", err
	}
	if place != errand.User {
		return group, nil
	}
	// What is handed over when a group is delegated, by the kernel's own list.
	delegate, err := os.ReadFile("/sys/kernel/cgroup/delegate")
	if err != nil {
		return "", err
	}
	for _, name := range append(strings.Fields(string(delegate)), "") {
		err := os.Chown(filepath.Join(group, name), errand.UserID, errand.UserID)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return group, nil
}

// start starts the test inside its group.
func start(e errand.Errand, group string, out *os.File) (pid int, err error) {
	dir, err := os.Open(group)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attributes := &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setsid: true}
	command := append([]string{e.Path}, e.Args...)
	switch e.Place {
	case errand.User:
		attributes.Credential = &syscall.Credential{Uid: errand.UserID, Gid: errand.UserID}
	case errand.Service, errand.Root:
	case errand.Container:
		command = append([]string{errand.Init, enterArgument}, command...)
	}
	return syscall.ForkExec(command[0], command, &syscall.ProcAttr{
		Dir: e.Dir, Env: e.Env, Sys: attributes,
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	})
}

// enterArgument makes this program enter a container instead.
const enterArgument = "enter"

// enter makes the own group the root of what is seen of the tree, and becomes the
// command. It returns only when it fails.
func enter(command []string) error {
	runtime.LockOSThread() // unshare changes one thread
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Unmount(groups, 0); err != nil {
		return fmt.Errorf("unmounting %s: %w", groups, err)
	}
	if err := syscall.Mount("cgroup2", groups, "cgroup2", syscall.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", groups, err)
	}
	return fmt.Errorf("%s: %w", command[0], syscall.Exec(command[0], command, os.Environ()))
}

// reap waits for all children, own and orphaned: it says when pid ended, and gives
// the error when there is none left.
func reap(pid int, ended chan<- syscall.WaitStatus, none chan<- error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			none <- err
			return
		case got == pid:
			ended <- status
		}
	}
}

// children tells which processes live that have this one as their parent.
func children() error {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var found []error
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has just ended
		}
		// After the name in brackets: state, parent.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		found = append(found, fmt.Errorf("process %d, state %s: %s", pid, fields[0], strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return errors.Join(found...)
}

// groupsBelow lists the control groups below a group.
func groupsBelow(group string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(group, func(dir string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, dir)
		}
		return err
	})
	return all, err
}
