package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// handedOver makes a v2 group with a controller that its groups may have, as
// a service manager does for a service. It is removed with the test.
func handedOver(t *testing.T) (dir, need string) {
	t.Helper()
	if f := probe.CgroupV2(); !f.OK {
		t.Skip("no cgroup v2: " + f.Detail)
	}
	all, err := probe.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	top := all[slices.IndexFunc(all, func(h probe.Hierarchy) bool { return h.V2 })].Dir
	if _, err := os.Stat(top + "/cgroup.type"); err == nil {
		t.Skipf("the own group, %s, is not the top of the tree, where alone this test may hand controllers down", top)
	}
	offered, err := listed(top, "cgroup.controllers")
	if err != nil || len(offered) == 0 {
		t.Skipf("cgroup v2 has no controllers here (%v)", err)
	}
	need = offered[len(offered)-1]
	// What is handed down is a matter of the whole machine: one test at a time.
	lock, err := openFolder(unix.AT_FDCWD, top)
	if err == nil {
		t.Cleanup(func() { unix.Close(lock) })
		err = retry(func() error { return unix.Flock(lock, unix.LOCK_EX) })
	}
	if err != nil {
		t.Fatal(err)
	}
	on, err := listed(top, "cgroup.subtree_control")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(on, need) {
		if err := handDown(top, []string{need}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := writeFile(unix.AT_FDCWD, top+"/cgroup.subtree_control", "-"+need); err != nil {
				t.Error(err)
			}
		})
	}
	dir = fmt.Sprintf("%s/bullpen-%d-delegated", top, os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeGroups(dir, deadlineIn(5*time.Second)); err != nil {
			t.Error(err)
		}
	})
	return dir, need
}

// startIn starts a helper in a v2 group and gives the lines it prints.
func startIn(t *testing.T, dir, name string, env ...string) *bufio.Scanner {
	t.Helper()
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	conn, err := group.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cmd := helperCommand(t, name, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd), Pdeathsig: syscall.SIGKILL}
		err = cmd.Start()
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return bufio.NewScanner(out)
}

func nextLine(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("no more output: %v", s.Err())
	}
	return s.Text()
}

// TestGroupDelegated has a host that is alone in a group that was given to it:
// it moves to a leaf and makes groups with controllers beside it.
func TestGroupDelegated(t *testing.T) {
	dir, need := handedOver(t)
	out := startIn(t, dir, "delegated")
	if got, want := nextLine(t, out), fmt.Sprintf("%s true [%s]", filepath.Base(dir), need); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var last string
	for out.Scan() {
		last = out.Text()
	}
	if !strings.HasSuffix(last, "/"+filepath.Base(dir)+"/"+hostLeaf) {
		t.Errorf("the host is in %q", last)
	}
}

// TestGroupShared has another process in the group, so that the host may not
// touch it, but root may go one up.
func TestGroupShared(t *testing.T) {
	dir, need := handedOver(t)
	other := startIn(t, dir, "block")
	nextLine(t, other)
	out := startIn(t, dir, "delegated", "SHARED=yes")
	got := nextLine(t, out)
	if !strings.Contains(got, errShared.Error()) || !strings.Contains(got, "Delegate=yes") {
		t.Errorf("got %q", got)
	}
	if got, want := nextLine(t, out), fmt.Sprintf("%s true [%s]", filepath.Base(filepath.Dir(dir)), need); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for out.Scan() { // until it has removed what it made
	}
	if on, err := listed(dir, "cgroup.subtree_control"); err != nil || len(on) > 0 {
		t.Errorf("%v are on in a group of others (%v)", on, err)
	}
}

// fakeGroup makes a folder with such files.
func fakeGroup(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestGroupPrepare(t *testing.T) {
	for _, c := range []struct {
		name, offered, on string
		need              []string
		writes, says      string
	}{
		{"already", "cpu memory pids", "memory pids", []string{"pids", "memory"}, "", ""},
		{"some", "cpu memory pids", "memory", []string{"memory", "pids", "cpu"}, "+pids +cpu", ""},
		{"none needed", "", "", nil, "", ""},
		{"missing", "memory", "memory", []string{"memory", "pids", "cpu"}, "", "the controllers pids, cpu: run it as a service with Delegate=yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fakeGroup(t, map[string]string{"cgroup.controllers": c.offered, "cgroup.subtree_control": c.on})
			err := prepare(dir, c.need)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if text, err := os.ReadFile(dir + "/cgroup.subtree_control"); err != nil || !strings.HasPrefix(string(text), c.writes) || c.writes == "" && string(text) != c.on {
				t.Errorf("%q is written (%v), want %q", text, err, c.writes)
			}
		})
	}
	if err := prepare(t.TempDir(), []string{"pids"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no group at all: %v", err)
	}
}

func TestGroupMissingControllers(t *testing.T) {
	dir := fakeGroup(t, map[string]string{"cgroup.controllers": "hugetlb\n", "cgroup.subtree_control": ""})
	v2 := probe.Hierarchy{V2: true, Dir: dir, Top: dir}
	if _, err := openV2([]probe.Hierarchy{v2}, []string{"memory", "cpu"}); err == nil || !strings.Contains(err.Error(), "memory, cpu") {
		t.Errorf("v2: %v", err)
	}
	if _, err := openV2(nil, nil); err == nil {
		t.Error("v2 that is not mounted was opened")
	}
	_, err := openV1([]probe.Hierarchy{v2, {Controllers: []string{"memory"}, Dir: dir}}, memoryKind|cpuKind)
	for _, says := range []string{"the controller memory: open", "the controller cpu is not mounted"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("v1: %v; want %q", err, says)
		}
	}
}

func TestGroupOurs(t *testing.T) {
	c := begin(t, newSpawner(t, Profile{}), shell("exec sleep 1000"))
	for pid, want := range map[int]bool{os.Getpid(): true, c.Pid(): true, os.Getppid(): false, 0: false, 1 << 30: true} {
		if got := ours(pid); got != want {
			t.Errorf("ours(%d) = %v", pid, got)
		}
	}
}
