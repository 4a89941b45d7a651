//go:build unix

package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// A worker that ends, or has to be killed, with a task in hand of which the shared
// page says that it never started: a few workers, and the task has an outcome.
func TestDeniedStartsAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role    string
		timeout time.Duration
		want    bullpen.Outcome
		cause   Cause
	}{
		{"denies-exit", 0, bullpen.Crashed, ByExit},
		{"denies-close", 0, bullpen.Protocol, ByProtocol},
		{"denies-hang", 50 * ms, bullpen.Timeout, ByTimeout},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			p := zooPool(t, func(c *Config) { c.Grace = 50 * ms }, c.role)
			r, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("bad"), Limits: bullpen.Limits{Timeout: c.timeout}})
			te := wantOutcome(t, err, c.want)
			if !strings.Contains(te.Error(), "3 workers ended while they had this task") || r.Stats.Deaths != maxDeaths {
				t.Errorf("the error is %q, with %d deaths", te, r.Stats.Deaths)
			}
			if got := do(t, p, "any", "after"); got != "after" {
				t.Errorf("the next task gave %q", got)
			}
			if n := p.Stats().Deaths[c.cause]; n != maxDeaths {
				t.Errorf("%d workers ended by %v, want %d", n, c.cause, maxDeaths)
			}
		})
	}
}

// A worker cannot have what runs taken out of its hand by a wrong word of what runs.
func TestWhatRunsIsNotTakenBack(t *testing.T) {
	t.Parallel()
	p := zooPool(t, func(c *Config) { c.Grace, c.Window = 50*ms, 8 }, "denies-oldest")
	do(t, p, "any", "first")
	tasks := batchOf(4, "any", "good")
	tasks[0].Payload, tasks[0].Limits.Timeout = []byte("bad"), 100*ms
	ended := p.ExecuteAll(within(t, time.Minute), tasks)
	_ = wantOutcome(t, ended[0].Err, bullpen.Timeout)
	for _, e := range ended[1:] {
		if e.Err != nil {
			t.Errorf("task %d, behind it: %v", e.Index, e.Err)
		}
	}
}

// A worker that gives a task back for ever refuses it.
func TestReturnsAreBounded(t *testing.T) {
	t.Parallel()
	p := zooPool(t, nil, "denies-return")
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("bad")})
	wantNeverStarted(t, err, bullpen.ErrRefused)
	if got := do(t, p, "any", "after"); got != "after" {
		t.Errorf("the next task gave %q", got)
	}
}

// Tasks that were in the hand of a worker with a bad one are tried alone, and all
// end well; the bad ones are convicted, each alone.
func TestTasksBesideADeniedOneEndWell(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			const bad = 5
			p := zooPool(t, func(c *Config) { c.Max, c.Window = workers, 16 }, "denies-exit")
			var tasks []bullpen.Task
			for i := range 200 {
				task := bullpen.Task{Payload: fmt.Appendf(nil, "good %d", i)}
				if i%40 == 3 {
					task.Payload = []byte("bad")
				}
				tasks = append(tasks, task)
			}
			for i, e := range p.ExecuteAll(within(t, 60*time.Second), tasks) {
				switch {
				case i%40 == 3:
					_ = wantOutcome(t, e.Err, bullpen.Crashed)
				case e.Err != nil:
					t.Errorf("task %d, beside a bad one: %v", i, e.Err)
				}
			}
			if n := p.Stats().Deaths[ByExit]; n > bad*maxDeaths {
				t.Errorf("%d workers died of %d bad tasks, want %d at most", n, bad, bad*maxDeaths)
			}
		})
	}
}

// A job that comes again after an attempt that was cut off has a worker for itself: so
// it can neither be blamed for another task, nor have its own death blamed on one.
func TestRedeliveredTasksRunAlone(t *testing.T) {
	t.Parallel()
	p := zooPool(t, func(c *Config) { c.Window = 16 }, "denies-exit")
	tasks := batchOf(40, "any", "good")
	for i := range tasks {
		tasks[i].Meta = map[string]string{MetaRedelivered: "true"}
	}
	tasks[20] = bullpen.Task{Payload: []byte("bad")}
	for i, e := range p.ExecuteAll(within(t, 60*time.Second), tasks) {
		if i == 20 {
			_ = wantOutcome(t, e.Err, bullpen.Crashed)
		} else if e.Err != nil {
			t.Errorf("task %d: %v", i, e.Err)
		}
	}
	if n := p.Stats().Replayed; n != maxDeaths-1 {
		t.Errorf("%d tasks were in the hand of a worker that died and had not started them, want the bad one, %d times", n, maxDeaths-1)
	}
}
