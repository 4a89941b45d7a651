//go:build linux

package process

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestKillingServersAtRandom: whatever dies or stops, every task of a function or a web app
// has one outcome, and the pool goes on.
func TestKillingServersAtRandom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"lambda": {Command: []string{self(), "function", "matrix"}, Protocol: Lambda, Limits: bullpen.Limits{Timeout: 5 * time.Second}},
		"http":   {Command: []string{self(), "web", "paths"}, Protocol: HTTP, Concurrency: 4, HTTP: HTTPWorker{Path: "/pid"}, Limits: bullpen.Limits{Timeout: 5 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Min, c.Max = 1, 3
			p := open(t, c)
			work := func(n int) []bullpen.Task {
				all := make([]bullpen.Task, n)
				for i := range all {
					all[i] = event(t, "pid", "")
				}
				return all
			}
			if err := p.Ready(within(t, time.Minute), 1); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var killer sync.WaitGroup
			killer.Go(func() { killServers(p, stop) }) // ends when stop is closed
			length := 2 * time.Second
			if long() {
				length = time.Minute
			}
			outcomes, submitted := map[string]int{}, 0
			for end := time.Now().Add(length); time.Now().Before(end); submitted += 50 {
				for _, e := range p.ExecuteAll(within(t, time.Minute), work(50)) {
					o, started := bullpen.OutcomeOf(e.Err)
					outcomes[fmt.Sprint(o, " ", started)]++
				}
			}
			close(stop)
			killer.Wait()
			t.Logf("%d tasks, outcomes: %v; %d workers started", submitted, outcomes, p.Stats().Started)
			poll(t, "the pool works", func() bool {
				r, err := p.Execute(within(t, time.Minute), event(t, "pid", ""))
				return err == nil && len(r.Payload) > 0
			})
		})
	}
}

// killServers kills workers of p that are ready, and stops some of them, until stop is
// closed.
func killServers(p *Pool, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(10+rand.IntN(60)) * ms):
		}
		all := slices.DeleteFunc(p.Workers(), func(w WorkerInfo) bool { return w.State == WorkerStarting || w.PID == 0 })
		if len(all) > 0 {
			signal := syscall.SIGKILL
			if rand.IntN(5) == 0 {
				signal = syscall.SIGSTOP // until the deadline of its task
			}
			_ = syscall.Kill(all[rand.IntN(len(all))].PID, signal)
		}
	}
}
