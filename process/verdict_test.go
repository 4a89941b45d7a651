//go:build unix

package process

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// dead is a worker that has died with tasks 1 to 6 in hand, of which the last
// was not written, and a page that says how far it had come.
func dead(t *testing.T, concurrency int, paged bool, begun, ended []uint32) *worker {
	t.Helper()
	w := &worker{concurrency: concurrency, flight: make([]*call, 64), oldest: 1, next: 7}
	d := &framesDriver{stream: stream{base: base{w}}}
	w.driver = d
	for n := uint32(1); n <= 6; n++ {
		w.flight[n] = &call{number: n}
	}
	w.pending = []*call{w.flight[6]}
	w.sentTo.Store(5)
	if !paged {
		return w
	}
	page, err := protocol.NewPage(make([]byte, protocol.PageSize))
	if err != nil {
		t.Fatal(err)
	}
	d.page = page
	for i, n := range begun {
		if concurrency == 1 {
			page.Begin(n)
		} else {
			page.BeginAt(i%concurrency, n)
		}
		if i < len(ended) {
			if concurrency == 1 {
				page.End(n)
			} else {
				page.EndAt(i % concurrency)
			}
		}
	}
	return w
}

// SPEC.md 6.1, the table of verdicts.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	const no, ran, lost = notStarted, suspect, unknown
	for _, c := range []struct {
		name         string
		concurrency  int
		paged        bool
		begun, ended []uint32
		want         [6]verdict
	}{
		{"nothing was started", 1, true, nil, nil, [6]verdict{no, no, no, no, no, no}},
		{"the first ran", 1, true, []uint32{1}, nil, [6]verdict{ran, no, no, no, no, no}},
		{"the first had ended", 1, true, []uint32{1}, []uint32{1}, [6]verdict{lost, no, no, no, no, no}},
		{"the third ran", 1, true, []uint32{1, 2, 3}, []uint32{1, 2}, [6]verdict{lost, lost, ran, no, no, no}},
		{"between the third and the fourth", 1, true, []uint32{1, 2, 3}, []uint32{1, 2, 3}, [6]verdict{lost, lost, lost, no, no, no}},
		{"all that were written had ended", 1, true, []uint32{1, 2, 3, 4, 5}, []uint32{1, 2, 3, 4, 5}, [6]verdict{lost, lost, lost, lost, lost, no}},
		{"without a page", 1, false, nil, nil, [6]verdict{ran, no, no, no, no, no}},
		{"two at a time", 2, true, []uint32{1, 2}, nil, [6]verdict{ran, ran, no, no, no, no}},
		{"three at a time, one had ended", 3, true, []uint32{1, 2, 3}, []uint32{1}, [6]verdict{lost, ran, ran, no, no, no}},
		{"three at a time, without a page", 3, false, nil, nil, [6]verdict{ran, ran, ran, ran, ran, no}},
	} {
		w := dead(t, c.concurrency, c.paged, c.begun, c.ended)
		for n := 1; n <= 6; n++ {
			if got := w.verdict(w.flight[n]); got != c.want[n-1] {
				t.Errorf("%s: task %d is %d, want %d", c.name, n, got, c.want[n-1])
			}
		}
	}
}

// Numbers of tasks go round, and 0 is none.
func TestTaskNumbersGoRound(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 16} {
		p := selfPool(t, func(c *Config) { c.Min, c.Window = 1, window })
		awaitReady(t, p, 1)
		p.mu.Lock()
		w := p.workers[0]
		w.oldest, w.next = math.MaxUint32-20, math.MaxUint32-20
		w.sentTo.Store(math.MaxUint32 - 21)
		p.mu.Unlock()
		for i := range 30 {
			want := fmt.Sprint(i)
			if got := do(t, p, "echo", want); got != want {
				t.Fatalf("task %s came back as %s", want, got)
			}
		}
		doAll(t, p, batchOf(300, "echo", "many"))
		p.mu.Lock()
		if w.next > 1000 || len(p.workers) != 1 || p.workers[0] != w {
			t.Errorf("the next number is %d", w.next)
		}
		p.mu.Unlock()
	}
}

// killing kills all workers again and again, until stop is called.
func killing(p *Pool, every time.Duration) (stop func()) {
	over := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() { // ends by stop, which waits for it
		look := time.NewTicker(every)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				signalWorkers(p, syscall.SIGKILL)
			case <-over:
				return
			}
		}
	})
	return func() { close(over); killer.Wait() }
}

// Many short tasks in the window of workers that are killed all the time: each
// task runs once at the most, and those that had not started run all the same.
func TestKillsUnderShortTasks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Max, c.Window, c.Logger = 2, 32, j.logger() })
	doAll(t, p, batchOf(2, "echo", "warm"))
	kills := uint64(40)
	if testing.Short() {
		kills = 8
	}
	stop := killing(p, 25*ms)
	var ended []bullpen.Ended
	for ctx := within(t, 60*time.Second); ctx.Err() == nil && p.Stats().Deaths[BySignal] < kills; {
		tasks := make([]bullpen.Task, 500)
		for i := range tasks {
			tasks[i] = bullpen.Task{Name: "mark", Payload: fmt.Appendf(nil, "%s %d 0s", file, len(ended)+i)}
		}
		ended = append(ended, p.ExecuteAll(ctx, tasks)...)
	}
	stop()
	marks, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for id := range strings.Lines(string(marks)) {
		times[strings.TrimSpace(id)]++
	}
	count := map[bullpen.Outcome]uint64{}
	for i, e := range ended {
		o, started := bullpen.OutcomeOf(e.Err)
		n := times[fmt.Sprint(i)]
		switch {
		case !started:
			t.Fatalf("task %d never started: %v", i, e.Err)
		case n > 1 || o == bullpen.OK && n != 1:
			t.Errorf("task %d ended as %v and ran %d times", i, o, n)
		case o != bullpen.OK && o != bullpen.Crashed && o != bullpen.Lost:
			t.Errorf("task %d: %v", i, e.Err)
		}
		count[o]++
	}
	s := p.Stats()
	if deaths := s.Deaths[BySignal]; deaths == 0 || s.Replayed == 0 || count[bullpen.Crashed] > deaths || count[bullpen.Lost] > 32*deaths {
		t.Errorf("%d deaths, %d replayed; outcomes %v", s.Deaths[BySignal], s.Replayed, count)
	}
	j.wantNoFaults(t)
}

// A grandchild that keeps the pipes open does not hide the death.
func TestDeathIsSeenWhileAGrandchildKeepsThePipes(t *testing.T) {
	t.Parallel()
	p := selfPool(t, nil)
	do(t, p, "detach", "sleep 60")
	began := time.Now()
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "exit", Payload: []byte("4")})
	if te := wantOutcome(t, err, bullpen.Crashed); te.ExitCode != 4 {
		t.Errorf("the exit code is %d", te.ExitCode)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("the death was reported after %v", d)
	}
	do(t, p, "echo", "after")
}
