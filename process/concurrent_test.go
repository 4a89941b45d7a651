//go:build unix

package process

import (
	"errors"
	"fmt"
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

// atOnce waits until n tasks run in the only worker of p.
func atOnce(t *testing.T, p *Pool, n int) {
	t.Helper()
	poll(t, fmt.Sprintf("%d run at once", n), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.workers) != 1 || !p.workers[0].recallable {
			return false
		}
		w, running := p.workers[0], 0
		page := w.driver.(*framesDriver).page
		for k := range w.concurrency {
			if page.RunningAt(k) != 0 {
				running++
			}
		}
		return running == n
	})
}

func TestHandlersOfOneWorkerRunAtOnce(t *testing.T) {
	t.Parallel()
	p := concurrent(t, nil)
	awaitReadyBy(t, p)
	var all []*asked
	for range 8 {
		all = append(all, submit(t, p, bullpen.Task{Name: "block"}))
	}
	atOnce(t, p, 8)
	for _, a := range all {
		a.cancel(errWhy)
		if _, err := a.outcome(t); !errors.Is(err, errWhy) {
			t.Error(err)
		}
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
	atOnce(t, p, 7)
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
	p := concurrent(t, func(c *Config) { c.Grace = 3 * time.Second })
	pid := do(t, p, "pid", "")
	listens := bullpen.Task{Name: "block", Limits: bullpen.Limits{Timeout: 50 * ms}}
	_, err := p.Execute(within(t, time.Minute), listens)
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
	_, err = p.Execute(within(t, time.Minute), bullpen.Task{Name: "stubborn", Payload: []byte("1h"), Limits: bullpen.Limits{Timeout: 50 * ms}})
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
