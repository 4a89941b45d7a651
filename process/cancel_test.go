//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

var errWhy = errors.New("the user has gone")

// asked is one task under way.
type asked struct {
	cancel context.CancelCauseFunc
	ended  chan error
	result chan bullpen.Result
}

// submit hands a task over with a context of its own.
func submit(t *testing.T, p *Pool, task bullpen.Task) *asked {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	a := &asked{cancel: cancel, ended: make(chan error, 1), result: make(chan bullpen.Result, 1)}
	if err := p.Submit(ctx, task, func(r bullpen.Result, err error) { a.result <- r; a.ended <- err }); err != nil {
		t.Fatalf("Submit: %v", err)
	}
	return a
}

// outcome waits for the end of the task, and says how long that took.
func (a *asked) outcome(t *testing.T) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	select {
	case err := <-a.ended:
		return time.Since(began), err
	case <-time.After(time.Minute):
		t.Fatal("the task has no outcome")
		return 0, nil
	}
}

// running waits until n tasks run, as far as can be seen: a worker with a page
// tells, for the others it is enough that they have read the task.
func running(t *testing.T, p *Pool, n int) {
	t.Helper()
	poll(t, fmt.Sprintf("%d tasks run", n), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		begun := 0
		for _, w := range p.workers {
			if w.count == 0 || w.child == nil {
				continue
			}
			var written *stream
			switch d := w.driver.(type) {
			case *framesDriver:
				written = &d.stream
				if d.page != nil {
					written = nil
				}
				if d.page != nil && d.page.Started() != d.page.Finished() {
					begun++
				}
			case *linesDriver:
				written = &d.stream
			default:
				begun++
			}
			if written == nil || len(w.pending) > 0 || w.writing {
				continue
			}
			if unread, err := written.in.Unread(); err == nil && unread == 0 {
				begun++
			}
		}
		return begun >= n
	})
}

func TestCancelOfATaskThatListens(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Grace = time.Minute })
	pid := do(t, p, "pid", "")
	a := submit(t, p, bullpen.Task{Name: "block"})
	running(t, p, 1)
	a.cancel(errWhy)
	d, err := a.outcome(t)
	te := wantOutcome(t, err, bullpen.Canceled)
	if !errors.Is(err, errWhy) || !errors.Is(err, context.Canceled) || te.Signal != "" || d > 20*time.Second {
		t.Errorf("after %v: %+v", d, te)
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Error("the worker of a task that ended when it was asked was replaced")
	}
}

func TestCancelOfAStubbornTask(t *testing.T) {
	t.Parallel()
	const grace = 150 * ms
	p := selfPool(t, func(c *Config) { c.Grace = grace })
	do(t, p, "pid", "")
	a := submit(t, p, bullpen.Task{Name: "stubborn", Payload: []byte("1h")})
	running(t, p, 1)
	a.cancel(errWhy)
	d, err := a.outcome(t)
	te := wantOutcome(t, err, bullpen.Canceled)
	if !errors.Is(err, errWhy) || te.Signal != "killed" || d < grace || d > grace+20*time.Second {
		t.Errorf("after %v, with a grace of %v: %+v", d, grace, te)
	}
	do(t, p, "echo", "after")
	if s := p.Stats(); s.Deaths[ByCancel] != 1 {
		t.Errorf("the deaths are %v, want one by cancel", s.Deaths)
	}
}

func TestCancelWhileQueued(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Window = 1 })
	long := submit(t, p, bullpen.Task{Name: "block"})
	running(t, p, 1)
	queued := submit(t, p, bullpen.Task{Name: "echo"})
	queued.cancel(errWhy)
	_, err := queued.outcome(t) // while the long one runs
	wantNeverStarted(t, err, errWhy)
	long.cancel(errWhy)
	if _, err := long.outcome(t); !errors.Is(err, errWhy) {
		t.Error(err)
	}
}

// Tasks that stand in a worker behind a long one are taken back: the canceled
// one ends at once, the others run elsewhere.
func TestTasksBehindALongOne(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Window = 1, 2, 8 })
	awaitReady(t, p, 1)
	long := submit(t, p, bullpen.Task{Name: "block"})
	var behind []*asked
	for i := range 4 {
		behind = append(behind, submit(t, p, bullpen.Task{Name: "echo", Payload: []byte{byte(i)}}))
	}
	behind[2].cancel(errWhy)
	_, err := behind[2].outcome(t)
	if !errors.Is(err, errWhy) && err != nil {
		t.Error(err)
	}
	for i, a := range behind {
		if i == 2 {
			continue
		}
		if _, err := a.outcome(t); err != nil {
			t.Errorf("task %d: %v", i, err)
		}
	}
	long.cancel(errWhy) // all the others have ended before it
	if _, err := long.outcome(t); !errors.Is(err, errWhy) {
		t.Errorf("the long one: %v", err)
	}
	if s := p.Stats(); s.Replayed == 0 {
		t.Error("nothing was taken back: the test shows nothing")
	}
}

// The same with one worker only: what is canceled ends while the long one runs.
func TestCancelBehindALongOne(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Window = 1, 1, 8 })
	awaitReady(t, p, 1)
	long := submit(t, p, bullpen.Task{Name: "block"})
	first, second := submit(t, p, bullpen.Task{Name: "echo"}), submit(t, p, bullpen.Task{Name: "echo"})
	pause(20 * ms)
	first.cancel(errWhy)
	_, err := first.outcome(t)
	wantNeverStarted(t, err, errWhy)
	long.cancel(errWhy)
	if _, err := long.outcome(t); !errors.Is(err, errWhy) {
		t.Errorf("the long one: %v", err)
	}
	if _, err := second.outcome(t); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    Protocol
		command []string // nil: this test's own worker
		task    bullpen.Task
		signal  string
		least   time.Duration
	}{
		{"listens", Frames, nil, bullpen.Task{Name: "block"}, "", 100 * ms},
		{"stubborn", Frames, nil, bullpen.Task{Name: "stubborn", Payload: []byte("1h")}, "killed", 200 * ms},
		{"spins", Frames, nil, bullpen.Task{Name: "spin", Payload: []byte("1h")}, "killed", 200 * ms},
		{"stopped", Frames, nil, bullpen.Task{Name: "selfkill", Payload: []byte("19")}, "killed", 200 * ms},
		{"lines", Lines, []string{"sh", "-c", "while read x; do sleep $x; echo; done"}, bullpen.Task{Payload: []byte("1000")}, "killed", 100 * ms},
		{"exec", Exec, []string{"sleep", "1000"}, bullpen.Task{}, "terminated", 100 * ms},
		{"exec stubborn", Exec, []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"}, bullpen.Task{Limits: bullpen.Limits{Timeout: time.Second}}, "killed", 1100 * ms}, // it needs time to begin
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := c.command
			if command == nil {
				command = []string{self()}
			}
			grace := 100 * ms
			if c.signal == "" {
				grace = time.Minute // it ends by itself, however long that takes it
			}
			p := open(t, Config{Command: command, Protocol: c.kind, Max: 1, Grace: grace})
			if c.kind == Frames {
				awaitReadyBy(t, p)
			}
			if c.task.Limits.Timeout == 0 {
				c.task.Limits.Timeout = 100 * ms
			}
			began := time.Now()
			_, err := p.Execute(t.Context(), c.task)
			te := wantOutcome(t, err, bullpen.Timeout)
			if d := time.Since(began); te.Signal != c.signal || d < c.least || d > c.least+20*time.Second {
				t.Errorf("after %v, want %v: %+v", d, c.least, te)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is no context.DeadlineExceeded", err)
			}

			// The deadline of the caller's context is the same, with its cause.
			c.task.Limits.Timeout = 0
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Since(began)+time.Second, errWhy)
			defer cancel()
			_, err = p.Execute(ctx, c.task)
			if !errors.Is(err, errWhy) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the deadline of the context: %v", err)
			}
		})
	}
}

// awaitReadyBy starts the first worker with a task.
func awaitReadyBy(t *testing.T, p *Pool) {
	t.Helper()
	do(t, p, "echo", "warm")
}

// A task that was given to a stopped worker has not started: it runs elsewhere.
func TestTaskOfAStoppedWorkerRunsElsewhere(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Grace = 2, 100*ms })
	pid := do(t, p, "pid", "")
	stopWorkers(t, p)
	r, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "pid", Limits: bullpen.Limits{Timeout: 200 * ms}})
	if err != nil || string(r.Payload) == pid {
		t.Errorf("the task ended as %q, %v in the stopped worker %s", r.Payload, err, pid)
	}
}

func TestSpareServesTheTaskAfterATimeout(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Spare, c.Grace = 2, 1, 50*ms })
	awaitReady(t, p, 1)
	soon(t, "the next task ends", 400*ms, func() time.Duration {
		poll(t, "a spare worker is warm", func() bool { s := p.Stats(); return s.Idle >= 1 })
		_, err := p.Execute(t.Context(), bullpen.Task{Name: "stubborn", Payload: []byte("1h"), Limits: bullpen.Limits{Timeout: 200 * ms}})
		_ = wantOutcome(t, err, bullpen.Timeout)
		began := time.Now()
		do(t, p, "echo", "next")
		return time.Since(began)
	})
}

// Cancels at random moments, around the end of tasks: each task has one outcome,
// and a late request ends no other task.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Max, c.Grace, c.Logger = 1, time.Minute, j.logger() })
	pid := do(t, p, "pid", "")
	for i := range 300 {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(time.Duration(i%30)*20*time.Microsecond, func() { cancel(errWhy) })
		_, err := p.Execute(ctx, bullpen.Task{Name: "sleep", Payload: []byte("200us")})
		if err != nil && !errors.Is(err, errWhy) {
			t.Fatalf("round %d: %v", i, err)
		}
		timer.Stop()
		cancel(nil)
		if _, err := p.Execute(t.Context(), bullpen.Task{Name: "sleep", Payload: []byte("100us")}); err != nil {
			t.Fatalf("round %d: the next task: %v", i, err)
		}
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Error("a worker that always did as it was asked was replaced")
	}
	j.wantNoFaults(t)
}

// A task that stops its worker, or spins, while the worker still holds the answer
// of the task before it: the deadline counts from its start all the same.
func TestDeadlineBehindAHeldAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bad-stop", "stubborn"} {
		p := selfPool(t, func(c *Config) { c.Max, c.Window, c.Grace = 1, 8, 100*ms })
		do(t, p, "pid", "")
		began := time.Now()
		ended := p.ExecuteAll(within(t, time.Minute), []bullpen.Task{
			{Name: "pid"}, {Name: name, Payload: []byte("1h"), Limits: bullpen.Limits{Timeout: 100 * ms}}, {Name: "pid"},
		})
		_ = wantOutcome(t, ended[1].Err, bullpen.Timeout)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("%s: the answer came after %v", name, d)
		}
		// The worker held the first answer when it was killed, and had not begun the last.
		if o, _ := bullpen.OutcomeOf(ended[0].Err); o != bullpen.OK && o != bullpen.Lost || ended[2].Err != nil {
			t.Errorf("%s: its neighbours ended with %v and %v", name, ended[0].Err, ended[2].Err)
		}
	}
}
