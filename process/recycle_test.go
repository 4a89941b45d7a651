//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// script is a worker that a shell starts after it has run some commands; $0 is
// the worker.
func script(commands string) []string {
	return []string{"/bin/sh", "-c", commands + `; exec "$0"`, self()}
}

func TestRecycleByTasks(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3} {
		p := selfPool(t, func(c *Config) { c.Max, c.Recycle = 2, Recycle{Tasks: most, Jitter: -1} })
		var mu sync.Mutex
		served := map[string]int{} // by process
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 6 {
					pid := do(t, p, "pid", "")
					mu.Lock()
					served[pid]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for pid, n := range served {
			if n > most {
				t.Errorf("process %s served %d tasks, the bound is %d", pid, n, most)
			}
		}
		poll(t, "those that are through have left", func() bool { return p.Stats().Leaving == 0 })
		if s := p.Stats(); len(served) < 24/most || len(s.Deaths) > 0 || s.FailedStarts > 0 {
			t.Errorf("%d processes served 24 tasks, %d each at the most; deaths %v", len(served), most, s.Deaths)
		}
	}
}

// State that a task leaves behind is not seen with a fresh process a task.
func TestFreshProcessForEachTask(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Recycle.Tasks = 1 })
	for range 3 {
		if n := do(t, p, "count", ""); n != "1" {
			t.Fatalf("the worker has counted to %s", n)
		}
	}
}

// order returns the place of the first record after from that is wanted, -1 for
// none.
func order(records []entry, from int, k EventKind, cause string) int {
	for i, e := range records {
		if i >= from && e.attrs["event"] == k.String() && (cause == "" || e.attrs["cause"] == cause) {
			return i
		}
	}
	return -1
}

// wantSuccession holds a replacement against its rule: started and ready before
// the old one is asked to leave.
func wantSuccession(t *testing.T, j *journal, cause Cause) {
	t.Helper()
	records := j.all()
	first := order(records, 0, Ready, "")
	started := order(records, first+1, Started, "")
	ready := order(records, started+1, Ready, "")
	retired := order(records, 0, Retired, cause.String())
	if first < 0 || started < 0 || ready < 0 || retired < ready {
		t.Errorf("the old worker retired at %d, the new one was started at %d and ready at %d; %s", retired, started, ready, j.tell())
	}
}

func TestRecycleByAge(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Logger, c.Recycle.Age = 1, 1, j.logger(), 250*ms })
	pid := do(t, p, "pid", "")
	j.awaitEvents(t, Stopped, 1)
	wantSuccession(t, j, ByAge)
	if again := do(t, p, "pid", ""); again == pid {
		t.Error("the old worker serves on")
	}
	j.wantNoFaults(t)
}

func TestRecycleByMemory(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Logger, c.Recycle.Memory = 1, 1, j.logger(), 128<<20 })
	pid := do(t, p, "pid", "")
	do(t, p, "grow", "1")
	pause(800 * ms) // it is looked at, and is small
	if again := do(t, p, "pid", ""); again != pid {
		t.Fatal("a small worker was replaced")
	}
	do(t, p, "grow", "160")
	j.awaitEvents(t, Stopped, 1)
	wantSuccession(t, j, ByMemory)
	if again := do(t, p, "pid", ""); again == pid {
		t.Error("the grown worker serves on")
	}
}

func TestJitterSpreadsReplacements(t *testing.T) {
	t.Parallel()
	p := &Pool{config: &resolved{Config: Config{Recycle: Recycle{Jitter: 0.1}}}}
	seen := map[int64]bool{}
	for range 2000 {
		n := p.vary(1000)
		if n < 900 || n > 1100 {
			t.Fatalf("1000 became %d with a jitter of a tenth", n)
		}
		seen[n] = true
	}
	if len(seen) < 100 {
		t.Errorf("only %d different bounds", len(seen))
	}
	if n := p.vary(1); n != 1 {
		t.Errorf("1 became %d", n)
	}
	p.config.Recycle.Jitter = 0
	if n := p.vary(1000); n != 1000 {
		t.Errorf("without jitter 1000 became %d", n)
	}
}

// While a reload runs no task waits for a start, which takes 1.5 s here.
func TestReload(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := open(t, Config{Command: script("sleep 1.5"), Min: 2, Max: 2, Logger: j.logger()})
	awaitReady(t, p, 2)
	old := workersOf(p)
	// What the machine takes without a reload, by whatever else it does.
	usual := time.Duration(0)
	for begin := time.Now(); time.Since(begin) < 500*ms; {
		began := time.Now()
		do(t, p, "echo", "trickle")
		usual = max(usual, time.Since(began))
	}
	reloaded := make(chan error, 1)
	go func() { reloaded <- p.Reload(within(t, 30*time.Second)) }()
	longest := time.Duration(0)
	for {
		began := time.Now()
		do(t, p, "echo", "trickle")
		longest = max(longest, time.Since(began))
		select {
		case err := <-reloaded:
			if err != nil {
				t.Fatal(err)
			}
			if longest > max(1200*ms, 20*usual) {
				t.Errorf("a task took %v while the reload ran, and %v before", longest, usual)
			}
			for _, pid := range workersOf(p) {
				for _, before := range old {
					if pid == before {
						t.Errorf("worker %d is left from before", pid)
					}
				}
			}
			wantSuccession(t, j, ByReload)
			if s := p.Stats(); s.Started != 4 || s.Stopped != 2 {
				t.Errorf("%s", j.tell())
			}
			j.wantNoFaults(t)
			return
		default:
		}
	}
}

// A new version that does not start leaves the old one at work, and is reported.
func TestReloadOfABrokenVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := open(t, Config{Command: script("if test -e broken; then echo syntax error >&2; exit 9; fi"), Dir: dir, Min: 1, Max: 1})
	pid := do(t, p, "pid", "")
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := p.Reload(within(t, 30*time.Second))
	var se *StartError
	if !errors.As(err, &se) || se.Stderr != "syntax error" || se.Exit != "exit code 9" {
		t.Fatalf("Reload says %v", err)
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Error("the old worker does not serve on")
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(within(t, 30*time.Second)); err != nil {
		t.Errorf("Reload of the mended version: %v", err)
	}
	if again := do(t, p, "pid", ""); again == pid {
		t.Error("the old worker serves on after the reload")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if err := p.Reload(ctx); !errors.Is(err, errWhy) {
		t.Errorf("Reload with an ended context: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context()); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("Reload of a closed pool: %v", err)
	}
}

// The breaker: callers learn it soon, with all that is known, the tries become
// rarer, and it mends itself.
func TestStartFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := newJournal()
	command := script("test -e ready || { echo cannot import nonsense >&2; exit 7; }")
	p := open(t, Config{Command: command, Dir: dir, Max: 2, Logger: j.logger()})
	began := time.Now()
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "echo"})
	var se *StartError
	if !errors.As(err, &se) || !errors.Is(err, bullpen.ErrStart) {
		t.Fatalf("the error is %v", err)
	}
	if _, started := bullpen.OutcomeOf(err); started {
		t.Error("the task counts as started")
	}
	text := err.Error()
	for _, part := range []string{"exit code 7", "cannot import nonsense", "/bin/sh", "3 failed starts"} {
		if !strings.Contains(text, part) {
			t.Errorf("the error does not say %q: %s", part, text)
		}
	}
	if d := time.Since(began); d > 20*time.Second || se.Failures != breakAfter {
		t.Errorf("after %d starts and %v", se.Failures, d)
	}
	if err := p.Ready(within(t, time.Minute), 1); !errors.Is(err, bullpen.ErrStart) {
		t.Errorf("Ready says %v", err)
	}
	// Somebody goes on trying, so starts are tried, at growing intervals.
	poll(t, "eight failed starts", func() bool {
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "echo"})
		return !errors.Is(err, bullpen.ErrStart) || len(j.events(StartFailed)) >= 8
	})
	failed := j.events(StartFailed)
	if len(failed) < 8 {
		t.Fatalf("%d starts failed, want 8", len(failed))
	}
	if late := failed[7].time.Sub(failed[6].time); late < backoff(7) {
		t.Errorf("the eighth start was tried after %v, want %v", late, backoff(7))
	}
	if len(j.events(Opened)) != 1 {
		t.Errorf("%s", j.tell())
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "it mends", func() bool {
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "echo"})
		return err == nil
	})
	j.awaitEvents(t, Mended, 1)
	if len(j.events(Mended)) != 1 || p.Stats().FailedStarts != uint64(len(j.events(StartFailed))) {
		t.Errorf("%s", j.tell())
	}
	j.wantNoFaults(t)
}

func TestBadStarts(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]string{
		"exit-at-start": "exit code 7 before it was ready", "silent-start": "did not become ready within 200ms",
		"wrong-version": "version 99", "garbage-hello": "protocol:",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			j := newJournal()
			p := zooPool(t, func(c *Config) {
				c.Logger = j.logger()
				if role == "silent-start" {
					c.StartTimeout = 200 * ms
				}
			}, role)
			began := time.Now()
			_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "any"})
			wantNeverStarted(t, err, bullpen.ErrStart)
			if !strings.Contains(err.Error(), want) || time.Since(began) > 10*time.Second {
				t.Errorf("after %v: %v, want %q", time.Since(began), err, want)
			}
			j.wantNoFaults(t)
		})
	}
}

// What is restarted again and again leaves nothing behind.
func TestRestartsLeaveNothing(t *testing.T) {
	rounds := 150
	if long() {
		rounds = 10_000
	}
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: 2, Queue: rounds, Recycle: Recycle{Tasks: 1}})
	doAll(t, p, batchOf(20, "", "x"))
	poll(t, "all have left", func() bool { return len(workersOf(p)) == 0 })
	before := holding(t)
	doAll(t, p, batchOf(rounds, "", "x"))
	poll(t, "all have left", func() bool { return p.Stats().Leaving+p.Stats().Starting+p.Stats().Idle == 0 })
	// Go keeps the threads that it once needed at the same time: far fewer than restarts.
	poll(t, "descriptors and goroutines are as before, and threads nearly so", func() bool {
		now := holding(t)
		return now[0] <= before[0]+rounds/5 && now[1] <= before[1]+2 && now[2] <= before[2]+2
	})
	if n := p.Stats().Started; n < uint64(rounds) {
		t.Errorf("%d starts for %d tasks", n, rounds)
	}
}

// Workers in their last tasks make room for one successor at a time: the pool
// has one process more than Max at the most.
func TestRecycleByTasksKeepsMax(t *testing.T) {
	t.Parallel()
	const most = 2
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: most, Queue: 200, Recycle: Recycle{Tasks: 1}})
	feed := p.Events(1000)
	doAll(t, p, batchOf(60, "", "x"))
	if err := p.Drain(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	live, peak := 0, 0
	for e := range feed.C {
		switch e.Kind {
		case Started:
			live++
		case Stopped, Died:
			live--
		default:
		}
		peak = max(peak, live)
	}
	if peak > most+1 || live != 0 {
		t.Errorf("up to %d processes lived at a time, and %d at the end", peak, live)
	}
}

// holding counts threads, descriptors and goroutines.
func holding(t *testing.T) (n [3]int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(b), "Threads:")
	line, _, _ := strings.Cut(rest, "\n")
	if n[0], err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n[1], n[2] = len(fds), runtime.NumGoroutine()
	return n
}
