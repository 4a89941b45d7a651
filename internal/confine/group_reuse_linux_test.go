package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGroupStates(t *testing.T) {
	if _, err := OpenGroups(Bounds{Memory: -1, PIDs: -1, CPU: 0.001, Weight: 20000}); err == nil || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("four faults are one error: %v", err)
	}
	groups := openGroups(t, Bounds{PIDs: 10})
	s := newSpawner(t, Profile{})
	if _, err := groups.Get(Bounds{CPU: -1}); err == nil {
		t.Error("a negative bound is taken")
	}
	if _, err := groups.Get(Bounds{Memory: 1 << 30}); err == nil || !strings.Contains(err.Error(), "[memory]") {
		t.Errorf("a bound that was not asked for: %v", err)
	}
	g := getGroup(t, groups, Bounds{})
	dir := g.parts[0].dir
	if err := g.Kill(); err != nil {
		t.Errorf("Kill of nobody: %v", err)
	}
	g.Put()
	g.Put()
	_, err := g.Usage()
	_, entryErr := g.Entry()
	_, startErr := s.Start(helperSpec(g, "block"))
	for _, err := range []error{err, entryErr, startErr, g.Kill()} {
		if !errors.Is(err, errGroupBack) {
			t.Errorf("after Put: %v", err)
		}
	}
	again := getGroup(t, groups, Bounds{PIDs: 5})
	if again.parts[0].dir != dir {
		t.Error("a clean group was not used again")
	}
	if err := errors.Join(groups.Close(), groups.Close()); err != nil {
		t.Fatal(err)
	}
	again.Put()
	_, err = again.Usage()
	_, startErr = s.Start(helperSpec(again, "block"))
	_, getErr := groups.Get(Bounds{})
	for _, err := range []error{err, startErr, getErr, again.Kill()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestGroupSpoilt wants groups that cannot be made like new to be replaced.
func TestGroupSpoilt(t *testing.T) {
	groups := openGroups(t, allBounds)
	g := getGroup(t, groups, allBounds)
	dir := g.parts[0].dir
	for _, p := range g.parts {
		if err := os.MkdirAll(p.dir+"/of/its/own", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.Put()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	again := getGroup(t, groups, allBounds)
	if again.parts[0].dir == dir {
		t.Error("it was used again")
	}
}

// TestGroupFileCache wants file cache not to be charged to the next user.
func TestGroupFileCache(t *testing.T) {
	b := Bounds{Memory: 512 << 20}
	groups := openGroups(t, b)
	s := newSpawner(t, Profile{Guard: true})
	file := filepath.Join(t.TempDir(), "cached")
	for range 2 {
		g := getGroup(t, groups, b)
		if e, err := begin(t, s, helperSpec(g, "fill", "FILE="+file)).Wait(); err != nil || e.Code != 0 {
			t.Fatalf("%v, %v", e, err)
		}
		if u := usageOf(t, g); u.Peak < 64<<20 {
			t.Errorf("the cache was not charged: %+v", u)
		}
		g.Put()
		g = getGroup(t, groups, b)
		if u := usageOf(t, g); u.Memory > mostLeft || u.Peak > mostLeft {
			t.Errorf("the next has %+v", u)
		}
		g.Put()
	}
}

func TestGroupConcurrent(t *testing.T) {
	groups := openGroups(t, allBounds)
	s := newSpawner(t, Profile{Guard: true})
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() { // ends after its rounds; waited for below
			for round := range 6 {
				b := []Bounds{allBounds, {PIDs: 30}, {Memory: 1 << 30}}[(i+round)%3]
				if err := useGroup(groups, s, b, round%2 == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	groups.mu.Lock()
	defer groups.mu.Unlock()
	if len(groups.stuck) > 0 || groups.fault != nil {
		t.Errorf("stuck: %v; %v", groups.stuck, groups.fault)
	}
}

func useGroup(groups *Groups, s *Spawner, b Bounds, kill bool) error {
	g, err := groups.Get(b)
	if err != nil {
		return err
	}
	defer g.Put()
	spec := shell("sleep 0.01")
	if kill {
		spec = shell("setsid sleep 1000 & sleep 1000")
	}
	spec.Group = g
	c, err := s.Start(spec)
	if err != nil {
		return err
	}
	if kill {
		err = g.Kill()
	}
	e, waitErr := c.Wait()
	u, usageErr := g.Usage()
	if b.Memory > 0 && u.Peak == 0 {
		err = errors.Join(err, fmt.Errorf("no memory was used by %v", e))
	}
	return errors.Join(err, waitErr, usageErr)
}

// TestGroupsSweep kills a host and wants its groups to be removed by the next,
// but not those of a host that lives.
func TestGroupsSweep(t *testing.T) {
	mine := openGroups(t, allBounds)
	host := helperCommand(t, "groups")
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := mark(t)
	host.Env = append(host.Env, text)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var folders [4]string
	n, err := fmt.Fscanln(out, &folders[0], &folders[1], &folders[2], &folders[3])
	if n < 2 {
		t.Fatal(err)
	}
	if err := host.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	if _, err := os.Stat(folders[0]); err != nil {
		t.Fatalf("the host has left nothing: %v", err)
	}
	openGroups(t, allBounds)
	for _, f := range folders[:n-1] { // the last word is "ready"
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", f, err)
		}
	}
	awaitNone(t, text, 10*time.Second)
	for _, tr := range mine.trees {
		if _, err := os.Stat(tr.own.path); err != nil {
			t.Errorf("that of a living host: %v", err)
		}
	}
}

// TestGroupsRefused has a user without rights, who learns what is missing.
func TestGroupsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run something as another user")
	}
	openGroups(t, allBounds)
	cmd := helperCommand(t, "refused")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"true ", "control groups for memory, pids, cpu", "cgroup v2: ", "cgroup v1: ", "Delegate=yes"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
}

// TestGroupsCloseRace closes while groups are used: everything ends with an
// error or well, and nothing is left, which openGroups looks at.
func TestGroupsCloseRace(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	for range 10 {
		groups := openGroups(t, allBounds)
		began := make(chan struct{}, 8)
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() { // ends when the groups are closed; waited for below
				var err error
				for err == nil {
					err = useGroup(groups, s, allBounds, true)
					began <- struct{}{}
				}
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		<-began
		done := make(chan struct{})
		go func() { // ends with its users
			for range began { // so that nobody waits for room
			}
			close(done)
		}()
		if err := groups.Close(); err != nil {
			t.Error(err)
		}
		users.Wait()
		close(began)
		<-done
	}
}
