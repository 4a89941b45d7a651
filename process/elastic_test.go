//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// batchOf makes n tasks of one kind.
func batchOf(n int, name, payload string) []bullpen.Task {
	return slices.Repeat([]bullpen.Task{{Name: name, Payload: []byte(payload)}}, n)
}

// doAll runs tasks and fails the test unless all end well.
func doAll(t *testing.T, p *Pool, tasks []bullpen.Task) {
	t.Helper()
	for _, e := range p.ExecuteAll(within(t, 60*time.Second), tasks) {
		if e.Err != nil {
			t.Fatalf("task %d: %v", e.Index, e.Err)
		}
	}
}

func TestFiveLongTasksRunAtOnce(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 5 })
	for range 5 {
		submit(t, p, bullpen.Task{Name: "block"})
	}
	running(t, p, 5)
	if s := p.Stats(); s.Started != 5 || s.Busy != 5 {
		t.Errorf("%d workers were started, %d are busy; want 5", s.Started, s.Busy)
	}
}

// Many workers idle out in the same instant; a floor of two stays.
func TestIdleWorkersLeaveInTimeAndNeverBelowMin(t *testing.T) {
	t.Parallel()
	j := newJournal()
	const idle = 200 * ms
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Idle, c.Logger = 2, 6, idle, j.logger() })
	began := time.Now()
	gate := filepath.Join(t.TempDir(), "gate")
	var all []*asked
	for range 6 {
		all = append(all, submit(t, p, bullpen.Task{Name: "gate", Payload: []byte(gate)}))
	}
	running(t, p, 6)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if _, err := a.outcome(t); err != nil {
			t.Fatal(err)
		}
	}
	rest := time.Now()
	poll(t, "four have left", func() bool {
		s := p.Stats()
		// On a busy machine one may still be starting when others have idled enough.
		if stay := s.Idle + s.Busy + s.Starting; stay < 2 {
			t.Fatalf("%d workers are left, min is 2", stay)
		}
		return s.Stopped == 4
	})
	for _, e := range j.events(Retired) {
		if e.time.Sub(began) < idle || e.time.Sub(rest) > idle+30*time.Second || e.attrs["cause"] != "idle" {
			t.Errorf("retired %v after the last task because of %s, want %v and idle", e.time.Sub(rest), e.attrs["cause"], idle)
		}
	}
	j.awaitEvents(t, KeptAlive, 4) // two workers, twice
	poll(t, "the last one is ready", func() bool { return p.Stats().Starting == 0 })
	if s := p.Stats(); s.Idle != 2 || s.Stopped != 4 || s.Started != 6 || s.Stops[ByIdle] != 4 || len(s.Deaths) != 0 {
		t.Errorf("%v stopped, %v died; %s", s.Stops, s.Deaths, j.tell())
	}
	if bytes, measured := p.Memory(); runtime.GOOS == "linux" && (measured != 2 || bytes < 2<<20) {
		t.Errorf("two workers hold %d bytes, of %d that were measured", bytes, measured)
	}
	j.wantNoFaults(t)
}

func TestTrickleKeepsOneWorkerWarm(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Idle = 3, 250*ms })
	doAll(t, p, batchOf(3, "sleep", "300ms"))
	pid := do(t, p, "pid", "")
	for p.Stats().Stopped < 2 {
		if again := do(t, p, "pid", ""); again != pid {
			t.Fatalf("a task ran in %s, although %s was used last", again, pid)
		}
		pause(10 * ms)
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Errorf("the worker that was used last has left")
	}
}

// timeline is the experiment of the article of 2020: work, rest, work, end.
func timeline(t *testing.T, tasks []bullpen.Task, idle, rest time.Duration) {
	t.Helper()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Idle, c.Logger = 2, 5, idle, j.logger() })
	doAll(t, p, tasks)
	if n := len(j.events(Started)); n != 5 {
		t.Errorf("%d workers were started, want 5", n)
	}
	old := workersOf(p)
	wake := time.NewTimer(rest)
	j.awaitEvents(t, Stopped, 3)
	<-wake.C
	if n := len(j.events(KeptAlive)); n < 4 || n > 2*int(rest/idle)+2 {
		t.Errorf("%d times kept alive, want 2 every %v for %v", n, idle, rest)
	}
	if n := len(j.events(Stopped)); n != 3 {
		t.Errorf("%d workers have stopped, want 3", n)
	}
	doAll(t, p, tasks)
	renewed := 0
	for _, pid := range workersOf(p) {
		if !slices.Contains(old, pid) {
			renewed++
		}
	}
	if renewed != 3 || len(j.events(Started)) != 8 {
		t.Errorf("%d workers are new, want 3; %s", renewed, j.tell())
	}
	if err := p.Drain(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if n := len(j.events(Stopped)); n != 8 {
		t.Errorf("%d workers have stopped, want all 8; %s", n, j.tell())
	}
	j.wantNoFaults(t)
}

func TestTimelineOf2020Quickly(t *testing.T) {
	t.Parallel()
	timeline(t, batchOf(100, "sleep", "10ms"), 500*ms, 1800*ms)
}

func TestTimelineOf2020(t *testing.T) {
	if !long() {
		t.Skip("takes 15 s: set BULLPEN_LONG=1")
	}
	timeline(t, batchOf(100, "hash", string(bytes.Repeat([]byte("x"), 1<<20))), 3*time.Second, 10*time.Second)
}

// However many bring tasks at once, no more than Max processes live: each is counted when
// the bound is checked, not when it has started.
func TestNeverMoreProcessesThanMax(t *testing.T) {
	t.Parallel()
	mark := markOf(t)
	p := selfPool(t, func(c *Config) { c.Command, c.Max, c.Idle = append(c.Command, mark), 3, 20*ms })
	for range 8 {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() { doAll(t, p, batchOf(3, "sleep", "3ms")) })
		}
		for look := time.NewTicker(2 * ms); ; {
			if n := len(marked(mark)); n > 3 {
				t.Errorf("%d processes live, max is 3", n)
			}
			<-look.C
			if s := p.Stats(); s.InHand+s.Queued == 0 {
				look.Stop()
				break
			}
		}
		all.Wait()
		pause(25 * ms) // some leave
	}
	if s := p.Stats(); s.Stopped == 0 {
		t.Error("no worker has left: the rounds show nothing")
	}
}

// A task that comes just when the last worker leaves is answered.
func TestTaskAtTheMomentOfLeaving(t *testing.T) {
	t.Parallel()
	const idle = 3 * ms
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: 1, Idle: idle})
	rounds := 200
	if long() {
		rounds = 5000
	}
	for i := range rounds {
		want := strconv.Itoa(i)
		if got := do(t, p, "", want); got != want {
			t.Fatalf("%q came back as %q", want, got)
		}
		pause(idle - ms + rand.N(2*ms))
	}
	if n := p.Stats().Stopped; n < 10 {
		t.Errorf("only %d workers have left: the rounds show nothing", n)
	}
}

// As many workers as Min start at once, and are replaced when they die.
func TestMinIsKept(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 3, 3 })
	awaitReady(t, p, 3)
	before := workersOf(p)
	if len(before) != 3 {
		t.Fatalf("%d workers without a task, min is 3", len(before))
	}
	signalWorkers(p, syscall.SIGKILL)
	poll(t, "three new workers", func() bool {
		now := workersOf(p)
		return p.Stats().Idle == 3 && !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(now, pid) })
	})
	if s := p.Stats(); s.Deaths[BySignal] != 3 {
		t.Errorf("the deaths are %v, want three by signal", s.Deaths)
	}
}

// A worker that has just taken a task is no idle one.
func TestSecondLongTaskDoesNotWaitForTheFirst(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 2 })
	awaitReady(t, p, 1)
	for range 2 {
		submit(t, p, bullpen.Task{Name: "block"})
	}
	running(t, p, 2) // at the same time, as there is room for two
}

// A load that swings about the threshold of growth starts no more workers than it needs.
func TestSwingingLoadDoesNotStartWorkersAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Idle = 4, 3*time.Second })
	for range 12 {
		doAll(t, p, batchOf(4, "sleep", "20ms"))
		doAll(t, p, batchOf(1, "sleep", "20ms"))
	}
	if n := p.Stats().Started; n > 4 {
		t.Errorf("%d workers were started, 4 are enough", n)
	}
}

func TestSpareWorkersAreWarm(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Spare, c.Idle = 4, 1, 100*ms })
	awaitReady(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for n := 1; n <= 2; n++ {
		err := p.Submit(ctx, bullpen.Task{Name: "block"}, func(_ bullpen.Result, err error) { ended <- err })
		if err != nil {
			t.Fatal(err)
		}
		poll(t, "a spare worker beside those that are busy", func() bool {
			s := p.Stats()
			return s.Busy == n && s.Idle == 1
		})
	}
	cancel()
	for range 2 {
		_ = wantOutcome(t, <-ended, bullpen.Canceled)
	}
	poll(t, "one spare worker is left", func() bool { s := p.Stats(); return s.Idle == 1 && s.Leaving+s.Busy == 0 })
}

func TestResize(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Max, c.Logger = 1, j.logger() })
	if err := p.Resize(3, 4); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, p, 3)
	if c := p.Config(); c.Min != 3 || c.Max != 4 {
		t.Errorf("Config says %d..%d after Resize(3, 4)", c.Min, c.Max)
	}
	if err := p.Resize(0, 1); err != nil {
		t.Fatal(err)
	}
	j.awaitEvents(t, Stopped, 2)
	for _, e := range j.events(Retired) {
		if e.attrs["cause"] != "resize" {
			t.Errorf("a worker retired because of %q", e.attrs["cause"])
		}
	}
	do(t, p, "echo", "still here")
	for _, bad := range [][2]int{{-1, 2}, {0, 0}, {3, 2}} {
		if err := p.Resize(bad[0], bad[1]); err == nil {
			t.Errorf("Resize(%d, %d) is taken", bad[0], bad[1])
		}
	}
	j.wantNoFaults(t)
}

func TestReadyEnds(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max = 2 })
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := p.Ready(ctx, 1); !errors.Is(err, why) {
		t.Errorf("Ready with an ended context: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(t.Context(), 1); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("Ready of a closed pool: %v", err)
	}
	if n := p.Capacity(); n != 0 {
		t.Errorf("a closed pool has a capacity of %d", n)
	}
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Command: []string{"there-is-no-such-program"}, Min: -1, Max: -2, Spare: -1, Queue: -1, Window: -1, Overflow: 9,
		Grace: -1, Env: []string{"="}, CPUs: []int{-1}, Nice: 44, NUL: true, Recycle: Recycle{Tasks: -1}, Limits: bullpen.Limits{Memory: 1}})
	if err == nil {
		t.Fatal("a configuration full of faults is taken")
	}
	for _, field := range []string{"Command", "Min", "Max", "Spare", "Queue", "Window", "Overflow", "Grace", "Env", "CPUs", "Nice", "NUL", "Recycle", "Limits.Memory"} {
		if !bytes.Contains([]byte(err.Error()), []byte(field)) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
	for _, c := range []Config{{}, {Command: []string{""}}, {Command: []string{"cat"}, Dir: "/no/such/folder"}, {Command: []string{"cat"}, Dir: "/etc/passwd"},
		{Command: []string{"cat"}, Min: 3, Max: 2}, {Command: []string{"cat"}, Protocol: 7}} {
		if _, err := New(c); err == nil {
			t.Errorf("%s is taken", fmt.Sprintf("%+v", c))
		}
	}
}
