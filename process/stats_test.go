//go:build unix

package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// The five times of a pool, with known durations.
func TestFiveTimes(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Queue, c.Window = 1, 1, 1, 1 })
	awaitReady(t, p, 1)
	ended := p.ExecuteAll(within(t, 30*time.Second), batchOf(4, "sleep", "100ms"))
	for i, e := range ended {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		if ran := e.Result.Stats.Ran; ran < 100*ms || ran > 20*time.Second {
			t.Errorf("task %d ran %v, want 100 ms", i, ran)
		}
		if e.Result.Stats.Worker == "" {
			t.Errorf("task %d names no worker", i)
		}
	}
	s := p.Stats()
	near := func(name string, h bullpen.Histogram, count uint64, q float64, least time.Duration) {
		t.Helper()
		if h.Count != count || h.Quantile(q) < least || h.Quantile(q) > 20*least+time.Second || h.Sum > time.Duration(h.Count)*h.Max {
			t.Errorf("%s: %d values, quantile %g %v, largest %v; want %d of about %v", name, h.Count, q, h.Quantile(q), h.Max, count, least)
		}
	}
	near("RunTime", s.RunTime, 4, 0.5, 100*ms)
	near("StartTime", s.StartTime, 1, 0.5, time.Microsecond)
	near("QueueTime", s.QueueTime, 4, 0.9, 90*ms)      // one waits for a task
	near("BlockedTime", s.BlockedTime, 2, 0.9, 180*ms) // one waits for two
	near("ReturnTime", s.ReturnTime, 4, 0.5, time.Nanosecond)
	if s.Accepted != 4 || s.Total() != 4 || s.Failed() != 0 || s.Outcomes[bullpen.OK] != 4 {
		t.Errorf("%d accepted, %d ended, %d failed", s.Accepted, s.Total(), s.Failed())
	}
}

func TestStatsCountEveryOutcome(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Grace = 1, 50*ms })
	execute := func(task bullpen.Task) { _, _ = p.Execute(within(t, time.Minute), task) }
	execute(bullpen.Task{Name: "echo"})
	execute(bullpen.Task{Name: "fail", Payload: []byte("plain:no")})
	execute(bullpen.Task{Name: "panic"})
	execute(bullpen.Task{Name: "block", Limits: bullpen.Limits{Timeout: 20 * ms}})
	execute(bullpen.Task{Name: "exit", Payload: []byte("1")})
	execute(bullpen.Task{Name: "big", Payload: []byte("100"), Limits: bullpen.Limits{Output: 10}})
	execute(bullpen.Task{Name: "nobody has this"})
	execute(bullpen.Task{Name: "echo", Limits: bullpen.Limits{Memory: 1}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Execute(ended, bullpen.Task{Name: "echo"}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	s := p.Stats()
	want := map[bullpen.Outcome]uint64{bullpen.OK: 1, bullpen.Failed: 1, bullpen.Panic: 1, bullpen.Timeout: 1, bullpen.Crashed: 1, bullpen.Output: 1} //nolint:exhaustive // the others are missing
	if !maps.Equal(s.Outcomes, want) || s.Refused != 3 || s.Accepted != 6 || s.Failed() != 5 || s.Deaths[ByExit] != 1 {
		t.Errorf("outcomes %v, %d refused, %d accepted, deaths %v", s.Outcomes, s.Refused, s.Accepted, s.Deaths)
	}
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Recycle: Recycle{Tasks: 1}, Max: 1})
	late, closed := p.Events(2), p.Events(0)
	closed.Close()
	closed.Close()
	if _, open := <-closed.C; open {
		t.Error("a closed feed has events")
	}
	doAll(t, p, batchOf(20, "", "x"))
	if len(late.C) != 2 || late.Dropped() == 0 {
		t.Errorf("a feed of 2 holds %d events and has dropped %d", len(late.C), late.Dropped())
	}
	if e := <-late.C; e.Kind != Started || e.PID == 0 || e.Worker == "" || e.Time.IsZero() {
		t.Errorf("the first event is %+v", e)
	}
}

func TestWordsOfEventsAndStates(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	check := func(word string) {
		t.Helper()
		if word == "" || seen[word] && word != "idle" {
			t.Errorf("the word %q is empty or used twice", word)
		}
		seen[word] = true
	}
	for k := Started; k <= Changed; k++ {
		check(k.String())
	}
	for c := range Cause(causes) {
		check("by " + c.String())
	}
	for w := WorkerStarting; w <= WorkerGone; w++ {
		check("worker " + w.String())
	}
	for s := Open; s <= Closed; s++ {
		check("pool " + s.String())
	}
	for p := Frames; p <= Exec; p++ {
		if again, err := ParseProtocol(p.String()); err != nil || again != p {
			t.Errorf("%v reads as %v, %v", p, again, err)
		}
	}
	if _, err := ParseProtocol("morse"); err == nil || !strings.Contains(err.Error(), "frames, lines, exec") {
		t.Errorf("an unknown protocol: %v", err)
	}
	if EventKind(99).String() == "" || Cause(99).String() == "" || Protocol(99).String() == "" {
		t.Error("unknown values have no words")
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Command: []string{self()}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got := p.Config()
	want := Config{
		Name: filepath.Base(self()), Command: []string{self()}, Max: runtime.GOMAXPROCS(0), Idle: 10 * time.Second, Queue: 1024, Concurrency: 1,
		Grace: 500 * ms, CloseGrace: 5 * time.Second, StartTimeout: 30 * time.Second, Ping: 15 * time.Second, Nice: 10, OOMScore: 500,
		Arena: 64 << 20, Limits: bullpen.Limits{Output: 64 << 20}, Recycle: Recycle{Jitter: 0.1}, Env: got.Env,
	}
	if got.Logger == nil {
		t.Error("there is no logger")
	}
	got.Logger = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are\n%+v\nwant\n%+v", got, want)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("BULLPEN_TEST_SECRET", "hunter2")
	t.Setenv("BULLPEN_TEST_PASSED", "yes")
	p := selfPool(t, func(c *Config) {
		c.Env = []string{"BULLPEN_TEST_PASSED", "BULLPEN_TEST_SET=a=b", "BULLPEN_TEST_UNSET", "TZ=UTC-3", "BULLPEN_TEST_SET=twice"}
	})
	lines := strings.Split(do(t, p, "environ", ""), "\n")
	for _, want := range []string{"BULLPEN_TEST_PASSED=yes", "BULLPEN_TEST_SET=a=b", "TZ=UTC-3", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not in the environment %q", want, lines)
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "hunter2") || strings.Contains(line, "UNSET") || strings.Contains(line, "twice") {
			t.Errorf("%s is in the environment", line)
		}
	}
}

func TestFolderPriorityAndProcessors(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := selfPool(t, func(c *Config) { c.Dir, c.Nice, c.CPUs = dir, 12, []int{0} })
	if got := do(t, p, "dir", ""); got != dir {
		t.Errorf("the folder is %q, want %q", got, dir)
	}
	if got := do(t, p, "nice", ""); got != "12" {
		t.Errorf("the nice value is %s, want 12", got)
	}
	if got := do(t, p, "cpus", ""); got != "0" {
		t.Errorf("the processors are %s, want 0", got)
	}
	mine := do(t, selfPool(t, func(c *Config) { c.Nice = HostNice }), "nice", "")
	if mine != "0" && mine != "10" {
		t.Logf("the host's own nice value is %s", mine)
	}
}

func TestRelativeCommandIsLookedUpInDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answer"), []byte("#!/bin/sh\nexec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := open(t, Config{Command: []string{"./answer"}, Dir: dir, Protocol: Lines, Max: 1})
	if got := do(t, p, "", "here"); got != "here" {
		t.Errorf("the answer is %q", got)
	}
}

// A large payload travels through shared memory or the pipe, with the same
// result.
func TestPayloadsOfAllSizes(t *testing.T) {
	t.Parallel()
	for _, arena := range []int{0, -1, 1 << 20} {
		p := selfPool(t, func(c *Config) { c.Max, c.Arena = 2, arena })
		for _, n := range []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 500_000, 2 << 20} {
			for _, e := range p.ExecuteAll(within(t, 60*time.Second), batchOf(8, "echo", strings.Repeat("p", n))) {
				if e.Err != nil || len(e.Result.Payload) != n {
					t.Fatalf("arena %d: %d bytes came back as %d, %v", arena, n, len(e.Result.Payload), e.Err)
				}
			}
		}
	}
}

func TestIdleWorkersAreAskedWhetherTheyLive(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Min, c.Ping, c.Idle, c.Logger = 1, 500*ms, -1, j.logger() })
	pid := do(t, p, "pid", "")
	pause(1200 * ms)
	if again := do(t, p, "pid", ""); again != pid {
		t.Error("a worker that answers was replaced")
	}
	stopWorkers(t, p)
	j.awaitEvents(t, Died, 1)
	if e := j.events(Died)[0]; e.attrs["cause"] != "silence" {
		t.Errorf("the worker died because of %q", e.attrs["cause"])
	}
	do(t, p, "echo", "after")
}
