//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

var soakTasks = flag.Int("soak", 0, "number of tasks of the soak tests; 0 means as many as fit into two seconds, or a million with BULLPEN_LONG=1")

// soak does to pools at random all that can be done to them, and holds every
// task against the rule: one outcome, and one that can be explained.
type soak struct {
	t       *testing.T
	config  Config
	task    func() bullpen.Task
	journal *journal

	concurrent bool          // workers may run several tasks at a time
	vary       func(*Config) // changes the configuration for a round; may be nil

	tasks    int64        // accepted by any pool
	accepted atomic.Int64 // by Submit
	answered atomic.Int64
	outcomes [bullpen.OutcomeCount + 1]atomic.Int64 // the last: never started
	ending   atomic.Bool                            // the pool is being ended
}

func (s *soak) run() {
	total, end := int64(*soakTasks), time.Now().Add(2*time.Second)
	if total == 0 && long() {
		total = 1_000_000
	}
	for round := 0; round == 0 || (total > 0 && s.tasks < total) || (total == 0 && time.Now().Before(end)); round++ {
		s.round(time.Duration(300+rand.IntN(600)) * ms)
	}
	if s.accepted.Load() != s.answered.Load() {
		s.t.Errorf("Submit accepted %d tasks, %d were answered", s.accepted.Load(), s.answered.Load())
	}
	var counts []int64
	for i := range s.outcomes {
		counts = append(counts, s.outcomes[i].Load())
	}
	s.t.Logf("%d tasks; by outcome, the last never started or refused: %v", s.tasks, counts)
}

// round is the life of one pool.
func (s *soak) round(d time.Duration) {
	s.journal = newJournal()
	s.ending.Store(false)
	c := s.config
	c.Min, c.Max, c.Queue, c.Grace = rand.IntN(2), 1+rand.IntN(4), 1+rand.IntN(64), 50*ms
	c.Overflow, c.Window = Overflow(rand.IntN(3)), []int{0, 1, 8, 32}[rand.IntN(4)]
	c.CloseGrace = time.Minute // on a busy machine the kernel takes its time to end a process
	c.Idle, c.Logger = time.Duration(1+rand.IntN(200))*ms, s.journal.logger()
	if rand.IntN(3) == 0 {
		c.Recycle = Recycle{Tasks: 50, Age: 200 * ms}
	}
	if s.concurrent && rand.IntN(3) == 0 {
		c.Command = append(slices.Clone(c.Command), "concurrent")
	}
	if s.vary != nil {
		s.vary(&c)
	}
	p, err := New(quick(c))
	if err != nil {
		s.t.Fatal(err)
	}
	stop := make(chan struct{})
	var callers, others sync.WaitGroup
	for range 4 {
		callers.Go(func() { s.call(p) })
	}
	others.Go(func() { every(50*ms, stop, func() { s.kill(p) }) })
	others.Go(func() {
		every(70*ms, stop, func() { low := rand.IntN(3); _ = p.Resize(low, low+1+rand.IntN(3)) })
	})
	others.Go(func() {
		every(150*ms, stop, func() {
			ctx, cancel := context.WithTimeout(s.t.Context(), 100*ms)
			defer cancel()
			_ = p.Reload(ctx)
		})
	})
	pause(d)
	s.ending.Store(true)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(1+rand.IntN(1000))*ms)
	err = ways[rand.IntN(3)].end(p, ctx)
	cancel()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("the end of a pool: %v", err)
	}
	close(stop)
	callers.Wait()
	others.Wait()
	checkEmpty(s.t, p)
	s.tasks += int64(p.Stats().Accepted)
	s.journal.wantNoFaults(s.t)
}

// every calls do each interval until stop is closed.
func every(d time.Duration, stop <-chan struct{}, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-stop:
			return
		}
	}
}

// kill ends one worker by SIGKILL, at random.
func (s *soak) kill(p *Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.workers) == 0 {
		return
	}
	if w := p.workers[rand.IntN(len(p.workers))]; w.child != nil && w.state.State() != WorkerStarting {
		_ = w.child.Signal(syscall.SIGKILL)
	}
}

// call hands tasks over until the pool takes no more.
func (s *soak) call(p *Pool) {
	for p.Stats().State == Open {
		ctx, cancel := context.WithCancel(s.t.Context())
		free := true // nothing but the pool ends its tasks
		switch rand.IntN(8) {
		case 0:
			ctx, cancel = context.WithTimeout(s.t.Context(), time.Duration(rand.IntN(20_000))*time.Microsecond)
			free = false
		case 1:
			time.AfterFunc(time.Duration(rand.IntN(10_000))*time.Microsecond, cancel)
			free = false
		}
		switch rand.IntN(3) {
		case 0:
			task := s.task()
			r, err := p.Execute(ctx, task)
			s.judge(task, r, err, free)
		case 1:
			s.submit(ctx, p, free)
		default:
			tasks := make([]bullpen.Task, 1+rand.IntN(200))
			for i := range tasks {
				tasks[i] = s.task()
			}
			for i, e := range p.ExecuteAll(ctx, tasks) {
				s.judge(tasks[i], e.Result, e.Err, free)
			}
		}
		cancel()
	}
}

// submit hands over some tasks at once, and waits for all that were accepted.
func (s *soak) submit(ctx context.Context, p *Pool, free bool) {
	var open sync.WaitGroup
	for range 1 + rand.IntN(8) {
		task := s.task()
		var times atomic.Int32
		open.Add(1)
		err := p.Submit(ctx, task, func(r bullpen.Result, err error) {
			if n := times.Add(1); n > 1 {
				s.t.Errorf("a task was answered %d times", n)
				return
			}
			s.judge(task, r, err, free)
			s.answered.Add(1)
			open.Done()
		})
		if err != nil {
			s.judge(task, bullpen.Result{}, err, free)
			open.Done()
		} else {
			s.accepted.Add(1)
		}
	}
	open.Wait()
}

// judge holds the outcome of a task against what was done to it. free says that
// its caller did not end it.
func (s *soak) judge(task bullpen.Task, r bullpen.Result, err error, free bool) {
	o, started := bullpen.OutcomeOf(err)
	if !started {
		s.outcomes[bullpen.OutcomeCount].Add(1)
		if errors.Is(err, bullpen.ErrOverloaded) || errors.Is(err, bullpen.ErrClosed) || !free && isContext(err) {
			return
		}
		s.t.Errorf("%s never started: %v", task.Name, err)
		return
	}
	s.outcomes[o].Add(1)
	legal := false
	switch o {
	case bullpen.OK:
		legal = task.Name != "echo" && task.Name != "list" || bytes.Equal(r.Payload, task.Payload)
	case bullpen.Crashed, bullpen.Lost:
		legal = true // workers are killed
	case bullpen.Failed, bullpen.Panic:
		legal = o.String() == task.ID
	case bullpen.Timeout:
		legal = !free || task.Limits.Timeout > 0
	case bullpen.Canceled:
		legal = !free || s.ending.Load()
	default:
	}
	if !legal {
		s.t.Errorf("%s %.40q ended as %v with %d bytes: %v", task.Name, task.Payload, o, len(r.Payload), err)
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

var large = bytes.Repeat([]byte("large "), 20_000)

func TestSoak(t *testing.T) {
	leak.Check(t)
	s := &soak{t: t, config: Config{Command: []string{self()}}, concurrent: true}
	s.task = func() bullpen.Task {
		switch rand.IntN(60) {
		case 0:
			return bullpen.Task{Name: "sleep", Payload: []byte("5ms")}
		case 1:
			return bullpen.Task{Name: "stubborn", Payload: []byte("3ms")}
		case 2:
			return bullpen.Task{Name: "fail", ID: "failed", Payload: []byte("plain:no")}
		case 3:
			return bullpen.Task{Name: "panic", ID: "panic"}
		case 4:
			return bullpen.Task{Name: "block", Limits: bullpen.Limits{Timeout: 3 * ms}}
		case 5, 6:
			return bullpen.Task{Name: "echo", Payload: large[:40_000+rand.IntN(50_000)]}
		case 7:
			return bullpen.Task{Name: "print", Payload: []byte("soak")}
		}
		return bullpen.Task{Name: "echo", Payload: fmt.Append(nil, rand.Int())}
	}
	s.run()
}

func TestSoakWithLines(t *testing.T) {
	leak.Check(t)
	s := &soak{t: t, config: Config{Command: []string{"cat"}, Protocol: Lines}}
	s.task = func() bullpen.Task { return bullpen.Task{Name: "echo", Payload: fmt.Append(nil, rand.Int())} }
	s.run()
}

// python is a pool's configuration with workers in Python, as the SDK's own
// tests have them.
func python(t *testing.T) Config {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	sdk, err := filepath.Abs("../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(sdk, "tests", "vector_worker.py")
	if _, err := os.Stat(script); err != nil {
		t.Skip(err)
	}
	return Config{Command: []string{path, script}, Env: []string{"PYTHONPATH=" + sdk, "PYTHONDONTWRITEBYTECODE=1"}}
}

func TestSoakWithPython(t *testing.T) {
	c := python(t)
	leak.Check(t)
	s := &soak{t: t, config: c}
	s.task = func() bullpen.Task {
		switch rand.IntN(30) {
		case 0:
			return bullpen.Task{Name: "fail", ID: "failed", Payload: []byte("no")}
		case 1:
			return bullpen.Task{Name: "echo", Payload: large[:40_000+rand.IntN(50_000)]}
		case 2:
			return bullpen.Task{Name: "big", Payload: []byte("50000")}
		}
		return bullpen.Task{Name: "echo", Payload: fmt.Append(nil, rand.Int())}
	}
	s.run()
}
