package executortest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// crash is a way to end a worker from within, and the expected error.
type crash struct {
	way    string
	status int // 0 means any status, except for "exit 0"
	signal string
	// outcomes are the allowed ones; nil means only Crashed.
	outcomes []bullpen.Outcome
}

var crashes = []crash{
	{way: "exit 0"},
	{way: "exit 3", status: 3},
	{way: "SIGKILL", signal: "killed"},
	{way: "SIGSEGV", signal: "segmentation fault"},
	{way: "SIGABRT", signal: "aborted"},
	{way: "wild pointer"},
	{way: "stack overflow"},
	{way: "fatal error"},
	{way: "panic in a goroutine"},
	// Without its descriptors, a worker looks as if it were alive.
	{way: "closed descriptors", outcomes: []bullpen.Outcome{bullpen.Crashed, bullpen.Protocol}},
}

func testCrashes(t *testing.T, f Factory) {
	ways := crashes
	if f.Guests {
		ways = slices.DeleteFunc(slices.Clone(crashes), func(c crash) bool { return dieHere[c.way] == nil })
	}
	p := f.pair(t, Options{}) // with a grace in which a shell can start and exit on a busy machine
	need(t, "CrashProof", p.can.CrashProof, "a crash of a task's code would be one of this process", p.can.Notes...)
	needProcesses(t)
	p.beside(func() {
		for _, c := range ways {
			begun := time.Now()
			_, err := p.run(task("bad-crash", c.way))
			t.Logf("%s: %v after %v", c.way, err, time.Since(begun))
			c.check(t, err)
		}
	})
}

func (c crash) check(t *testing.T, err error) {
	t.Helper()
	if c.outcomes == nil {
		c.outcomes = []bullpen.Outcome{bullpen.Crashed}
	}
	o, started := bullpen.OutcomeOf(err)
	if !started || !slices.Contains(c.outcomes, o) {
		t.Errorf("a worker that died by %s gave %v, want one of %v", c.way, err, c.outcomes)
		return
	}
	te := taskError(t, err, o)
	switch {
	case c.signal != "" && te.Signal != c.signal:
		t.Errorf("a worker that died by %s is said to have died by signal %q, status %d", c.way, te.Signal, te.ExitCode)
	case c.status != 0 && te.ExitCode != c.status, c.way == "exit 0" && (te.ExitCode != 0 || te.Signal != ""):
		t.Errorf("a worker that ended by %s is said to have ended with status %d, signal %q", c.way, te.ExitCode, te.Signal)
	case c.way != "exit 0" && o == bullpen.Crashed && te.Signal == "" && te.ExitCode <= 0:
		t.Errorf("of a worker that died by %s the error says neither status nor signal: %v", c.way, err)
	}
}

// inTime runs a task that ends only by its timeout, and checks that it ends in time.
func (p *pair) inTime(name string, grace time.Duration) {
	p.t.Helper()
	k := task(name, "")
	k.Limits.Timeout = 100 * time.Millisecond
	begun := time.Now()
	_, err := p.run(k)
	took := time.Since(begun)
	wantOutcome(p.t, err, bullpen.Timeout)
	p.t.Logf("%s: a timeout of %v and a grace of %v gave the answer after %v", name, k.Limits.Timeout, grace, took)
	if took > k.Limits.Timeout+grace+slack {
		p.t.Errorf("%s with a timeout of %v was answered after %v", name, k.Limits.Timeout, took)
	}
	begun = time.Now()
	p.works()
	p.t.Logf("the next task took %v", time.Since(begun))
}

func testDeaf(t *testing.T, f Factory) {
	f.needSystem(t, "there is no signal to ignore")
	const grace = 100 * time.Millisecond
	p := f.pair(t, Options{Grace: grace})
	need(t, "Preemptive", p.can.Preemptive, "a task that ignores its cancellation would go on", p.can.Notes...)
	needProcesses(t)
	p.beside(func() {
		p.inTime("bad-deaf", grace)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := p.give(ctx, task("bad-deaf", ""))
		_ = wait(ctx, 50*time.Millisecond) // the task cannot signal that it has started
		cancel()
		if _, err := a.wait(t); err == nil {
			t.Error("a canceled task that ignores all signals ended well")
		}
	})
	a := p.give(t.Context(), task("bad-deaf", ""))
	_ = wait(t.Context(), 50*time.Millisecond)
	if err := within(t, "Close", p.Close); err != nil {
		t.Errorf("Close() = %v, though the executor can end every task", err)
	}
	if _, err := a.wait(t); err == nil {
		t.Error("a task that ignores all signals ended well by Close")
	}
}

func testStopped(t *testing.T, f Factory) {
	f.needSystem(t, "there is no process to stop")
	const grace = 100 * time.Millisecond
	p := f.pair(t, Options{Workers: 1, Grace: grace})
	need(t, "Preemptive", p.can.Preemptive, "a task that stops its process would stop it for ever", p.can.Notes...)
	need(t, "CrashProof", p.can.CrashProof, "the process would be this one", p.can.Notes...)
	needProcesses(t)
	p.beside(func() { p.inTime("bad-stop", grace) })
	// Close must also end it.
	a := p.give(t.Context(), task("bad-stop", ""))
	_ = wait(t.Context(), 50*time.Millisecond)
	if err := within(t, "Close", p.Close); err != nil {
		t.Errorf("Close() = %v, though the executor can end every task", err)
	}
	if _, err := a.wait(t); err == nil {
		t.Error("a task in a stopped process ended well")
	}
}

// testEscape looks for processes that a task leaves behind: after the executor is closed
// and, if that is promised, after its worker has ended.
func testEscape(t *testing.T, f Factory) {
	f.needSystem(t, "there is no process to leave behind")
	escape := func(t *testing.T, p *pair) {
		t.Helper()
		needProcesses(t)
		mark := newMark()
		p.beside(func() {
			if _, err := p.run(task("bad-escape", mark)); err != nil {
				t.Errorf("a task that leaves processes behind ended with %v", err)
			}
			eventually(t, "a task leaves processes behind", func() bool { return len(marked(mark)) == 2 })
		})
		p.endsFamily(mark)
	}
	t.Run("Close", func(t *testing.T) {
		p := f.pair(t, Options{Workers: 1})
		need(t, "OrphanProof", p.can.OrphanProof || p.keeps.Family, "what a task starts may outlive the executor", p.can.Notes...)
		escape(t, p)
	})
	t.Run("EndOfWorker", func(t *testing.T) {
		p := f.pair(t, Options{Workers: 1, Bounds: Bounds{Memory: boundMemory}})
		need(t, "Family", p.keeps.Family, "what a task starts may outlive its worker")
		escape(t, p)
	})
}

// jumped is a context whose creator's wall clock has jumped: its Deadline is wrong, but it
// ends at the right time.
type jumped struct {
	context.Context //nolint:containedctx // it is one itself

	says time.Time
}

func (j jumped) Deadline() (time.Time, bool) { return j.says, true }

// testClock changes the wall clock: the deadlines that contexts report, and the executor's
// own clock if it has one. Neither may end a task too early or too late.
func testClock(t *testing.T, f Factory) {
	const hour, short = time.Hour, 60 * time.Millisecond
	p := f.pair(t, Options{})
	p.beside(func() {
		// These are wall-clock times, as after a jump in the opposite direction.
		past, future := time.Now().Round(0).Add(-hour), time.Now().Round(0).Add(hour)
		for _, says := range []time.Time{past, future} {
			ctx := jumped{t.Context(), says}
			if _, err := p.try(ctx, task("sleep", short.String())).wait(t); err != nil {
				t.Errorf("a task whose context has not ended ended with %v", err)
			}
			limited := task("block", "")
			limited.Limits.Timeout = short
			_, err := p.try(ctx, limited).wait(t)
			wantOutcome(t, err, bullpen.Timeout)

			if _, err := p.try(t.Context(), task("echo", "")).wait(t); err != nil { // a killed worker has a successor
				t.Error(err)
			}
			due, cancel := context.WithTimeout(t.Context(), short)
			_, err = p.try(jumped{due, says}, task("block", "")).wait(t)
			cancel()
			wantOutcome(t, err, bullpen.Timeout)
		}
		if _, err := p.try(t.Context(), task("echo", "")).wait(t); err != nil {
			t.Error(err)
		}
		wall, cancel := context.WithDeadline(t.Context(), time.Now().Round(0).Add(short))
		defer cancel()
		_, err := p.try(wall, task("block", "")).wait(t)
		wantOutcome(t, err, bullpen.Timeout)
		if f.JumpClock != nil {
			f.jumpWhileRunning(p)
		}
	})
}

// jumpWhileRunning moves the executor's clock in both directions while two tasks run, one
// with ample time and one with little.
func (f Factory) jumpWhileRunning(p *pair) {
	p.t.Helper()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		ample, scarce := task("sleep", "300ms"), task("block", "")
		ample.Limits.Timeout, scarce.Limits.Timeout = time.Minute, 300*time.Millisecond
		a, b := p.give(p.t.Context(), ample), p.give(p.t.Context(), scarce)
		_ = wait(p.t.Context(), 100*time.Millisecond)
		f.JumpClock(jump)
		_, err := a.wait(p.t)
		_, late := b.wait(p.t)
		f.JumpClock(-jump)
		if err != nil {
			p.t.Errorf("a task that had time ended with %v when the clock jumped by %v", err, jump)
		}
		wantOutcome(p.t, late, bullpen.Timeout)
	}
}
