//go:build unix

package process

import (
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// concurrent is a pool of workers that run eight handlers at a time each.
func concurrent(t *testing.T, change func(*Config)) *Pool {
	t.Helper()
	return selfPool(t, func(c *Config) {
		c.Command = append(c.Command, "concurrent")
		if change != nil {
			change(c)
		}
	})
}

func TestHandlersOfOneWorkerRunAtOnce(t *testing.T) {
	t.Parallel()
	p := concurrent(t, nil)
	awaitReadyBy(t, p)
	began := time.Now()
	doAll(t, p, batchOf(8, "sleep", "400ms"))
	if d := time.Since(began); d > 1900*ms {
		t.Errorf("eight tasks of 400 ms took %v in a worker that runs eight at a time", d)
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("%d workers were started, max is 1", s.Started)
	}
	doAll(t, p, batchOf(2000, "echo", "many"))
}

// What ran beside the task that ended the worker has crashed with it, what had
// not started runs elsewhere.
func TestDeathOfAConcurrentWorker(t *testing.T) {
	t.Parallel()
	p := concurrent(t, nil)
	awaitReadyBy(t, p)
	var beside []*asked
	for range 7 {
		beside = append(beside, submit(t, p, bullpen.Task{Name: "stubborn", Payload: []byte("5s")}))
	}
	poll(t, "seven run", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		w, n := p.workers[0], 0
		for k := range w.concurrency {
			if w.page.RunningAt(k) != 0 {
				n++
			}
		}
		return n == 7
	})
	var behind sync.WaitGroup
	exit := submit(t, p, bullpen.Task{Name: "exit", Payload: []byte("6")})
	for range 5 {
		behind.Go(func() { do(t, p, "echo", "behind") })
	}
	for _, a := range append(beside, exit) {
		_, err := a.outcome(t)
		if te := wantOutcome(t, err, bullpen.Crashed); te.ExitCode != 6 {
			t.Errorf("the exit code is %d", te.ExitCode)
		}
	}
	behind.Wait()
}

func TestDeadlinesOfAConcurrentWorker(t *testing.T) {
	t.Parallel()
	p := concurrent(t, func(c *Config) { c.Grace = 200 * ms })
	pid := do(t, p, "pid", "")
	listens := bullpen.Task{Name: "block", Limits: bullpen.Limits{Timeout: 50 * ms}}
	_, err := p.Execute(within(t, 20*time.Second), listens)
	if te := wantOutcome(t, err, bullpen.Timeout); te.Signal != "" {
		t.Errorf("a task that listens was killed by %q", te.Signal)
	}
	other := submit(t, p, bullpen.Task{Name: "block"})
	running(t, p, 1)
	other.cancel(errWhy)
	_, err = other.outcome(t)
	if te := wantOutcome(t, err, bullpen.Canceled); te.Signal != "" {
		t.Errorf("a task that listens was killed by %q", te.Signal)
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Error("the worker was replaced although all tasks listened")
	}
	_, err = p.Execute(within(t, 20*time.Second), bullpen.Task{Name: "stubborn", Payload: []byte("1h"), Limits: bullpen.Limits{Timeout: 50 * ms}})
	if te := wantOutcome(t, err, bullpen.Timeout); te.Signal != "killed" {
		t.Errorf("a stubborn task was ended by %q", te.Signal)
	}
	do(t, p, "echo", "after")
}

// What the host has in its variables is not seen by a worker.
func TestStaticsAreNotShared(t *testing.T) {
	t.Parallel()
	served.Store(543)
	if got := do(t, selfPool(t, nil), "count", ""); got != "1" {
		t.Errorf("a worker has counted to %s, the host to 543", got)
	}
	if n := served.Load(); n != 543 {
		t.Errorf("the host's variable is %d", n)
	}
}
