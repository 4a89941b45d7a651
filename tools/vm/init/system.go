//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bullpen-run/bullpen/tools/vm/errand"
)

// groups is where the only cgroup tree of the machine is mounted.
const groups = "/sys/fs/cgroup"

// controllers that the machine must have: those that Bullpen limits with.
var controllers = []string{"cpu", "cpuset", "io", "memory", "pids"}

// prepare makes a system of the bare kernel.
func prepare() error {
	if err := ownRoot(); err != nil {
		return err
	}
	for _, m := range []struct{ kind, dir, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", "mode=1777"},
		{"tmpfs", "/tmp", "mode=1777"},
		{"tmpfs", "/run", "mode=755"},
		{"securityfs", "/sys/kernel/security", ""},
		{"cgroup2", groups, "nsdelegate"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.kind, m.dir, m.kind, syscall.MS_NOSUID, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.dir, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, command := range []string{
		"hostname vm",
		"ip link set lo up",
		"stty -F " + errand.Output + " raw -echo",
		"stty -F " + errand.Verdict + " raw -echo",
	} {
		out, err := exec.Command(errand.Busybox, strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("busybox %s: %w: %s", command, err, out)
		}
	}
	return prepareGroups()
}

// ownRoot makes a root that is a mount of its own: the first root of a kernel can
// neither be left by pivot_root nor be unmounted, which a sandbox may want.
func ownRoot() error {
	if err := syscall.Mount(errand.System, errand.System, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", errand.System, err)
	}
	if err := os.Chdir(errand.System); err != nil {
		return err
	}
	if err := syscall.Mount(".", "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	// Changes of mounts reach other mount namespaces, as systemd has it.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	return os.Chdir("/")
}

// prepareGroups moves this process out of the root group and hands all
// controllers down from there.
func prepareGroups() error {
	if err := os.Mkdir(groups+"/init", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(groups+"/init/cgroup.procs", []byte("0"), 0o600); err != nil {
		return err
	}
	offered, err := os.ReadFile(groups + "/cgroup.controllers")
	if err != nil {
		return err
	}
	enable := "+" + strings.Join(strings.Fields(string(offered)), " +")
	if err := os.WriteFile(groups+"/cgroup.subtree_control", []byte(enable), 0o600); err != nil {
		return fmt.Errorf("enabling %s: %w", enable, err)
	}
	return nil
}

// describe says in one line what the machine offers. It is an error when that is
// less than what the tests are run here for.
func describe(place errand.Place) (string, error) {
	version, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	modules, err := os.ReadFile("/sys/kernel/security/lsm")
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Split(strings.TrimSpace(string(modules)), ","), "landlock") {
		return "", fmt.Errorf("landlock is not switched on: %s", modules)
	}
	offered, err := os.ReadFile(groups + "/cgroup.controllers")
	if err != nil {
		return "", err
	}
	have := strings.Fields(string(offered))
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			return "", fmt.Errorf("cgroup v2 has no controller %s, only %v", c, have)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup" {
			return "", fmt.Errorf("cgroup v1 is mounted: %s", line)
		}
	}
	return fmt.Sprintf("In a virtual machine, Linux %s, cgroup v2 only, with %s; security modules %s; the test runs in place %q",
		strings.TrimSpace(string(version)), strings.Join(have, " "), strings.TrimSpace(string(modules)), place), nil
}
