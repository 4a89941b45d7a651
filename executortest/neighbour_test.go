package executortest

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// familyPromises is what a family keeps besides its Guarantees.
func familyPromises(bullpen.Executor) Promises { return Promises{Temp: true} }

func TestNeighboursOfReference(t *testing.T) {
	Neighbours(t, Factory{New: func(_ *testing.T, o Options) bullpen.Executor { return newReference(Handlers(), o) }})
}

func TestNeighboursOfFamily(t *testing.T) {
	Neighbours(t, Factory{
		New:      func(t *testing.T, o Options) bullpen.Executor { return newFamily(t, o, wrong{}) },
		Promises: familyPromises,
	})
}

// badNeighbour is an executor that lets bad tasks harm others, the clause that
// must see it, and what this says of it.
type badNeighbour struct {
	name   string
	clause string
	says   string
	hangs  bool // the clause has to wait in vain
	make   func(t *testing.T, o Options) bullpen.Executor
}

// inFamily makes a family that does something wrong.
func inFamily(w wrong) func(*testing.T, Options) bullpen.Executor {
	return func(t *testing.T, o Options) bullpen.Executor { return newFamily(t, o, w) }
}

// guarantees is an executor that promises what it may not keep.
type guarantees struct {
	bullpen.Executor

	says bullpen.Guarantees
}

func (g guarantees) Guarantees() bullpen.Guarantees { return g.says }

var badNeighbours = []badNeighbour{
	{"takes running out of memory for a crash", "MemoryHog", "want a *TaskError with outcome memory", false, inFamily(wrong{
		memory: func(te *bullpen.TaskError) error { te.Outcome = bullpen.Crashed; return te },
	})},
	{"takes running out of memory for a success", "MemoryHog", "ended with <nil>, want a *TaskError with outcome memory", false, inFamily(wrong{
		memory: func(*bullpen.TaskError) error { return nil },
	})},
	{"does not say how much memory it was", "MemoryHog", "does not have both", false, inFamily(wrong{
		memory: func(te *bullpen.TaskError) error { te.Message = "killed"; return te },
	})},
	{"leaves what detached itself", "Escape", "live after Close", false, inFamily(wrong{leavesDetached: true})},
	{"waits for workers that have been stopped", "StoppedWorker", "no answer to task bad-stop", true, inFamily(wrong{waitsForEnd: true})},
	{"waits for workers that are deaf", "DeafToSignals", "no answer to task bad-deaf", true, inFamily(wrong{waitsForEnd: true})},
	{"keeps all that workers print", "OutputFlood", "the memory of the host's own program grew", false, func(t *testing.T, o Options) bullpen.Executor {
		return newFamily(t, o, wrong{stderr: &bytes.Buffer{}})
	}},
	{"has one temporary folder for all", "DiskFiller", "the temporary folder of a worker is that of the host", false, inFamily(wrong{sharedTemp: true})},
	{"leaves temporary folders", "DiskFiller", "is there after Close", false, inFamily(wrong{leavesTemp: true})},
	{"waits for none of its dead", "DescriptorHog", "there are left: child process", true, inFamily(wrong{leavesDead: true})},
	{"lets all workers die with one", "CrashInEveryWay", "an innocent task beside it: it ended with", false, func(t *testing.T, o Options) bullpen.Executor {
		f := newFamily(t, o, wrong{})
		f.crashed = f.kill
		return f
	}},
	{"loses a neighbour's task", "CrashInEveryWay", "an innocent task beside it: no answer", true, losing},
	{"shares static variables", "StaticState", "the static variable is \"543\"", false, func(_ *testing.T, o Options) bullpen.Executor {
		return guarantees{newMortal(o), bullpen.Guarantees{CrashProof: true}}
	}},
	{"bounds neither memory nor refuses it", "MemoryHog", "want an error that says that it never started", false, limitless},
	{"believes the wall clock", "ClockJumps", "ended with", true, byWallClock},
	{"believes what a context says of its end", "ClockJumps", "ended with", false, func(_ *testing.T, o Options) bullpen.Executor {
		f := &faulty{Executor: newReference(Handlers(), o)}
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			if until, limited := ctx.Deadline(); limited && time.Now().After(until) {
				return context.DeadlineExceeded
			}
			return f.Executor.Submit(ctx, t, done)
		}
		return f
	}},
	{"makes a run time of package context", "ClockJumps", "no answer to task block", true, func(_ *testing.T, o Options) bullpen.Executor {
		f := &faulty{Executor: newReference(Handlers(), o)}
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			if t.Limits.Timeout == 0 {
				return f.Executor.Submit(ctx, t, done)
			}
			ctx, cancel := context.WithTimeout(ctx, t.Limits.Timeout)
			t.Limits.Timeout = 0
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { cancel(); done(r, err) })
		}
		return f
	}},
}

func limitless(_ *testing.T, o Options) bullpen.Executor {
	f := &faulty{Executor: newReference(Handlers(), o)}
	f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
		t.Limits.Memory = 0
		return f.Executor.Submit(ctx, t, done)
	}
	return f
}

// deaths counts dead workers of all losing executors.
var deaths atomic.Int64

// losing makes an executor that loses an answer whenever a worker of another one
// has died.
func losing(t *testing.T, o Options) bullpen.Executor {
	inner := newFamily(t, o, wrong{})
	seen := deaths.Load()
	var own atomic.Int64
	inner.crashed = func() { own.Add(1); deaths.Add(1) }
	f := &faulty{Executor: inner}
	f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
		return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
			if err != nil || deaths.Load()-seen == own.Load() {
				done(r, err)
			}
		})
	}
	return f
}

// jump is by how much the wall clock of byWallClock is off.
var jump atomic.Int64

// byWallClock makes an executor that ends tasks by a clock that jumps.
func byWallClock(_ *testing.T, o Options) bullpen.Executor {
	wall := func() time.Time { return time.Now().Add(time.Duration(jump.Load())).Round(0) }
	f := &faulty{Executor: newReference(Handlers(), o)}
	f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
		if t.Limits.Timeout == 0 {
			return f.Executor.Submit(ctx, t, done)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		due := wall().Add(t.Limits.Timeout)
		t.Limits.Timeout = 0
		var look func()
		look = func() {
			if ctx.Err() != nil {
				return
			}
			if wall().Before(due) {
				time.AfterFunc(time.Millisecond, look)
				return
			}
			cancel(errTimeout)
		}
		look()
		return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { cancel(nil); done(r, err) })
	}
	return f
}

// TestBadNeighbour is the body of the helper process of TestNeighboursCatch.
func TestBadNeighbour(t *testing.T) {
	name := os.Getenv(brokenVariable)
	for _, b := range badNeighbours {
		if b.name == name {
			if b.hangs {
				patience = 2 * time.Second
			}
			Neighbours(t, Factory{
				New: b.make, Promises: familyPromises,
				JumpClock: func(d time.Duration) { jump.Add(int64(d)) },
			})
		}
	}
}

// TestNeighboursCatch shows that each of them is seen by the clause that is there
// for it, and why.
func TestNeighboursCatch(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, b := range badNeighbours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			out, err := runTest(t, b.name, "^TestBadNeighbour$/^("+b.clause+")$")
			if err == nil || !strings.Contains(out, "--- FAIL: TestBadNeighbour/"+b.clause) || !strings.Contains(out, b.says) {
				t.Errorf("clause %s does not say %q of an executor that %s: %v\n%s", b.clause, b.says, b.name, err, out)
			}
			if strings.Contains(out, "panic: ") {
				t.Errorf("clause %s falls over an executor that %s:\n%s", b.clause, b.name, out)
			}
		})
	}
}

// TestRequire shows what the switch makes of skips.
func TestRequire(t *testing.T) {
	for _, c := range []struct {
		required string
		fails    bool
	}{{"", false}, {"CPUBound", false}, {"MemoryBound", true}, {"CPUBound,MemoryBound", true}, {"all", true}} {
		t.Setenv(requireVariable, c.required)
		out, err := runTest(t, "", "^TestNeighboursOfReference$/^MemoryHog$")
		if (err != nil) != c.fails || c.fails != strings.Contains(out, "MemoryBound is required") {
			t.Errorf("%s=%q: %v\n%s", requireVariable, c.required, err, out)
		}
	}
}
