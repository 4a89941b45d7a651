//go:build linux

package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// A host that is killed in the midst of starts leaves nothing that lives, and
// what it leaves in the file systems goes with the next start.
func TestBusyHostKilled(t *testing.T) {
	t.Parallel()
	rounds := 4
	if long() {
		rounds = 40
	}
	for _, kind := range []string{"started", "forked"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			args := []string{"busy-host", markOf(t)}
			var path []string
			if kind == "forked" {
				c := preloaded(t, "import bullpen\n@bullpen.task\ndef echo(p: bytes) -> bytes:\n    return p\nbullpen.run()\n")
				args, path = append(args, c.Command[0], c.Command[1]), c.Env
			}
			temp := t.TempDir()
			var dead []int
			for range rounds {
				dead = append(dead, killBusyHost(t, args, append(path, "TMPDIR="+temp)))
			}
			// The next start sweeps. What the last host forked may have lost its name and
			// still be closing its files, one of which is the lock of its folder.
			poll(t, "the folder for temporary files is empty", func() bool { return sweptBy(t, temp) })
			if g, err := confine.OpenGroups(confine.Bounds{Memory: 1 << 30}); err == nil {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}
			// Another host that starts now may be at it, too.
			poll(t, "no control group is left", func() bool { return len(groupsOf(t, dead)) == 0 })
		})
	}
}

func killBusyHost(t *testing.T, args, env []string) (pid int) {
	t.Helper()
	c := startHost(t, env, args...)
	<-time.After(time.Duration(rand.IntN(50)) * ms)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = c.Wait() // it was killed; until it is gone its folders are locked
	poll(t, "no worker lives", func() bool { return !slices.ContainsFunc(mentioned(args[1]), alive) })
	if d := time.Since(began); d > 20*500*ms {
		t.Errorf("workers lived for %v, want 500 ms or not much more", d)
	}
	return c.Process.Pid
}

// sweptBy reports whether nothing is left in a folder for temporary files after one
// more host has begun and ended there.
func sweptBy(t *testing.T, temp string) bool {
	t.Helper()
	s, err := confine.OpenScratch(temp)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	return len(left) == 0
}

// groupsOf lists the control groups of the hosts with these numbers.
func groupsOf(t *testing.T, hosts []int) (left []string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/*/bullpen-*", "/sys/fs/cgroup/*/*/bullpen-*", "/sys/fs/cgroup/*/*/*/bullpen-*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range found {
			var pid int
			if _, err := fmt.Sscanf(filepath.Base(dir), "bullpen-%d-", &pid); err == nil && slices.Contains(hosts, pid) {
				left = append(left, dir)
			}
		}
	}
	return left
}

// Whatever is killed at random - workers, the process that forks them, the guard
// of them all - every task has one outcome, and the pool goes on.
func TestKillingAtRandom(t *testing.T) {
	t.Parallel()
	c := preloaded(t, forkedWorker)
	c.Max, c.Min, c.Limits.Memory = 3, 1, 1<<30
	if g, err := confine.OpenGroups(confine.Bounds{Memory: 1 << 30}); err != nil {
		c.Limits.Memory = 0
	} else if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, c)
	do(t, p, "about", "")
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() { // ends when stop is closed
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(20+rand.IntN(80)) * ms):
			}
			victims := descendants(os.Getpid())
			victims = slices.DeleteFunc(victims, func(pid int) bool { return !belongs(pid, p, c.Command[1]) })
			if len(victims) > 0 {
				_ = syscall.Kill(victims[rand.IntN(len(victims))], syscall.SIGKILL)
			}
		}
	})
	length := 2 * time.Second
	if long() {
		length = time.Minute
	}
	outcomes := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		for _, e := range p.ExecuteAll(within(t, 60*time.Second), batchOf(50, "write", "")) {
			o, started := bullpen.OutcomeOf(e.Err)
			outcomes[fmt.Sprint(o, " ", started)]++
			if e.Err == nil && string(e.Result.Payload) != "mine" {
				t.Errorf("a result is %q", e.Result.Payload)
			}
		}
	}
	close(stop)
	killer.Wait()
	t.Logf("outcomes: %v; %d workers started", outcomes, p.Stats().Started)
	poll(t, "the pool works", func() bool {
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "write"})
		return err == nil
	})
}

// belongs reports whether a process is a worker of p, or what forks or guards them.
func belongs(pid int, p *Pool, script string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	if strings.Contains(string(b), script) {
		return true
	}
	// One guard in twenty: with it everything ends at once.
	workers := workersOf(p)
	return isGuard(pid) && len(workers) > 0 && namespaceOf(workers[0]) == namespaceOf(pid) && rand.IntN(20) == 0
}

func namespaceOf(pid int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return fmt.Sprint(pid, err)
	}
	return name
}
