//go:build unix

package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// host is another process with a pool: its workers keep their processors busy,
// read nothing, and have something in a session of its own. It says so, and
// waits to be killed.
func host(mark string) {
	ctx := context.Background()
	p, err := New(quick(Config{Command: []string{self(), mark}, Max: 3}))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if g := p.Guarantees(); !g.OrphanProof {
		fmt.Println("unable", strings.Join(g.Notes, "; "))
		return
	}
	for _, script := range []string{"trap '' TERM HUP; : " + mark + "; while :; do :; done", "exec sleep 1000"} {
		if _, err := p.Execute(ctx, bullpen.Task{Name: "detach", Payload: []byte(script)}); err != nil {
			fmt.Println("error", err)
			return
		}
	}
	if err := p.Resize(3, 3); err != nil {
		fmt.Println("error", err)
		return
	}
	if err := p.Ready(ctx, 3); err != nil {
		fmt.Println("error", err)
		return
	}
	for _, name := range []string{"spin", "stubborn", "block"} {
		if err := p.Submit(ctx, bullpen.Task{Name: name, Payload: []byte("1h")}, func(bullpen.Result, error) {}); err != nil {
			fmt.Println("error", err)
			return
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended, whatever happens
}

// busyHost is a host that starts and ends workers all the time: with control
// groups where there are some, temporary folders, and, where python names an
// interpreter, forked from a preloaded process. Everything in it bears mark.
func busyHost(mark, python, script string) {
	c := Config{
		Command: []string{self(), mark}, Max: 3, Queue: 64, Recycle: Recycle{Tasks: 2},
		Limits: bullpen.Limits{Memory: 1 << 30}, Env: []string{"PYTHONPATH"},
	}
	if python != "" {
		c.Command, c.Preload = []string{python, script, mark}, []string{"json"}
	}
	p, err := New(quick(c))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if g := p.Guarantees(); !g.OrphanProof {
		fmt.Println("unable", strings.Join(g.Notes, "; "))
		return
	}
	ctx := context.Background()
	if _, err := p.Execute(ctx, bullpen.Task{Name: "echo"}); err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("ready")
	go func() { // ends with the program
		for {
			_ = p.Submit(ctx, bullpen.Task{Name: "echo", Payload: []byte("x")}, func(bullpen.Result, error) {})
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended, whatever happens
}

// startHost starts a host and waits until it says that it is ready. It is killed
// and waited for when the test has ended.
func startHost(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(self(), args...)
	c.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have been killed by the test
		_ = c.Wait()
		_ = stdin.Close()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if why, unable := strings.CutPrefix(line, "unable "); unable {
		t.Skip("this machine cannot promise it: " + why)
	}
	if err != nil || line != "ready\n" {
		t.Fatalf("the host says %q: %v", line, err)
	}
	return c
}

// Nothing outlives the host, not even what spins, does not read, ignores
// signals or has detached itself. The figure is 500 ms.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	mark := markOf(t)
	c := startHost(t, nil, "host", mark)
	// The host, three workers, the detached shell and its neighbour.
	poll(t, "all of them live", func() bool { return len(mentioned(mark)) >= 5 })
	family := descendants(c.Process.Pid)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	// The guard itself ends when the reaper of this machine has taken note of
	// the others, which may look about once a second only.
	guards := slices.DeleteFunc(slices.Clone(family), func(pid int) bool { return !isGuard(pid) })
	none := func(pids []int) bool { return !slices.ContainsFunc(pids, alive) }
	workers := slices.DeleteFunc(family, func(pid int) bool { return slices.Contains(guards, pid) })
	poll(t, "no worker and no grandchild lives", func() bool { return none(workers) && len(mentioned(mark)) == 0 })
	d := time.Since(began)
	t.Logf("nothing lived after %v", d)
	if len(workers) < 5 || d > 20*500*ms {
		t.Errorf("%d processes lived for %v, want 500 ms or not much more", len(workers), d)
	}
	poll(t, "the guard is gone", func() bool { return none(guards) })
}

// isGuard reports whether a process is the one that ends the others.
func isGuard(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(b)) == "bullpen-guard"
}
