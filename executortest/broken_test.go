package executortest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// brokenVariable names the environment variable that makes this test binary run
// the suite against a broken executor.
const brokenVariable = "BULLPEN_BROKEN_EXECUTOR"

// faulty is an executor some of whose methods are replaced by faulty ones.
type faulty struct {
	bullpen.Executor

	submit   func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error
	capacity func() int
	room     func() <-chan struct{}
	drain    func(context.Context) error
	stop     func(context.Context) error
	close    func() error
}

func (f faulty) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if f.submit != nil {
		return f.submit(ctx, t, done)
	}
	return f.Executor.Submit(ctx, t, done)
}

func (f faulty) Capacity() int {
	if f.capacity != nil {
		return f.capacity()
	}
	return f.Executor.Capacity()
}

func (f faulty) Room() <-chan struct{} {
	if f.room != nil {
		return f.room()
	}
	return bullpen.Room(f.Executor)
}

func (f faulty) Drain(ctx context.Context) error {
	if f.drain != nil {
		return f.drain(ctx)
	}
	return f.Executor.Drain(ctx)
}

func (f faulty) Stop(ctx context.Context) error {
	if f.stop != nil {
		return f.stop(ctx)
	}
	return f.Executor.Stop(ctx)
}

func (f faulty) Close() error {
	if f.close != nil {
		return f.close()
	}
	return f.Executor.Close()
}

// fault is one way to break the contract, and the clause that must see it.
type fault struct {
	name   string
	clause string
	make   func(o Options) bullpen.Executor
}

// wrapped makes an executor that is broken by replaced methods.
func wrapped(change func(f *faulty)) func(o Options) bullpen.Executor {
	return func(o Options) bullpen.Executor {
		f := &faulty{Executor: newMortal(o)}
		change(f)
		return f
	}
}

// answers makes an executor that changes what it answers.
func answers(change func(t bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error)) func(Options) bullpen.Executor {
	return wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { done(change(t, r, err)) })
		}
	})
}

// tasks makes an executor that changes what it is given.
func tasks(change func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task)) func(Options) bullpen.Executor {
	return wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			ctx, t = change(ctx, t)
			return f.Executor.Submit(ctx, t, done)
		}
	})
}

// limits makes an executor that changes the limits of its tasks.
func limits(change func(l *bullpen.Limits)) func(Options) bullpen.Executor {
	return tasks(func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task) {
		change(&t.Limits)
		return ctx, t
	})
}

// options makes an executor that was not made as asked.
func options(change func(o *Options)) func(Options) bullpen.Executor {
	return func(o Options) bullpen.Executor {
		change(&o)
		return newMortal(o)
	}
}

var faults = slices.Concat(answerFaults, chunkFaults, endingFaults, roomFaults)

var answerFaults = []fault{
	{"answers twice", "SameResultsAsDirectCalls", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { done(r, err); done(r, err) })
		}
	})},
	{"loses answers", "MapInOrder", wrapped(func(f *faulty) {
		var n atomic.Int64
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			lost := n.Add(1)%10 == 0
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				if !lost {
					done(r, err)
				}
			})
		}
	})},
	{"loses answers of killed tasks", "Random", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				if o, started := bullpen.OutcomeOf(err); !started || o != bullpen.Crashed {
					done(r, err)
				}
			})
		}
	})},
	{"answers what it refused", "UnknownTask", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			err := f.Executor.Submit(ctx, t, done)
			if err != nil {
				done(bullpen.Result{}, err)
			}
			return err
		}
	})},
	{"gives results of others", "Random", answers(func(t bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		if t.Name == "mark" && err == nil {
			r.Payload = []byte("another")
		}
		return r, err
	})},
	{"runs tasks again", "Random", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				if err == nil || f.Executor.Submit(ctx, t, done) != nil {
					done(r, err)
				}
			})
		}
	})},
	{"gives payload and error", "Failure", answers(func(_ bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		if err != nil {
			r.Payload = []byte("partial")
		}
		return r, err
	})},
	{"says started of what never started", "CancelQueued", answers(func(t bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		if _, started := bullpen.OutcomeOf(err); !started {
			err = &bullpen.TaskError{Outcome: bullpen.Canceled, Task: t.Name, ID: t.ID}
		}
		return r, err
	})},
	{"says never started of what started", "CancelRunning", answers(func(_ bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		if err != nil {
			err = context.Canceled
		}
		return r, err
	})},
	{"says lost although exact", "CancelRunning", answers(changeOutcome(bullpen.Canceled, bullpen.Lost))},
	{"takes a panic for a failure", "Panic", answers(changeOutcome(bullpen.Panic, bullpen.Failed))},
	{"names no task", "Failure", answers(func(_ bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		var te *bullpen.TaskError
		if errors.As(err, &te) {
			te.Task = ""
		}
		return r, err
	})},
	{"forgets what handlers say of retries", "Failure", answers(func(_ bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		var te *bullpen.TaskError
		if errors.As(err, &te) {
			te.Retryable = true
		}
		return r, err
	})},
	{"changes payloads", "PayloadIsLeftAlone", tasks(func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task) {
		if len(t.Payload) > 0 {
			t.Payload[0] = 'A'
		}
		return ctx, t
	})},
	{"loses metadata", "SameResultsAsDirectCalls", tasks(func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task) {
		t.Meta = nil
		return ctx, t
	})},
	{"ignores memory and CPU", "LimitsKeptOrRefused", limits(func(l *bullpen.Limits) { l.Memory, l.CPU = 0, 0 })},
	{"ignores the output bound", "OutputLimit", limits(func(l *bullpen.Limits) { l.Output = 0 })},
	{"ignores timeouts", "TimeoutOfRunTime", limits(func(l *bullpen.Limits) { l.Timeout = 0 })},
	{"ignores cancellation", "CancelQueued", tasks(func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task) {
		return context.WithoutCancel(ctx), t
	})},
	{"counts waiting as run time", "TimeoutDoesNotCountWaiting", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			if t.Limits.Timeout == 0 {
				return f.Executor.Submit(ctx, t, done)
			}
			ctx, cancel := context.WithTimeout(ctx, t.Limits.Timeout)
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { cancel(); done(r, err) })
		}
	})},
}

func changeOutcome(from, to bullpen.Outcome) func(bullpen.Task, bullpen.Result, error) (bullpen.Result, error) {
	return func(_ bullpen.Task, r bullpen.Result, err error) (bullpen.Result, error) {
		var te *bullpen.TaskError
		if errors.As(err, &te) && te.Outcome == from {
			te.Outcome = to
		}
		return r, err
	}
}

var endingFaults = []fault{
	{"has one worker too few", "WorkersRunAtOnce", options(func(o *Options) { o.Workers-- })},
	{"has no bound", "OverflowReject", options(func(o *Options) { o.Queue = 1 << 20 })},
	{"has less room than asked for", "OverflowReject", options(func(o *Options) { o.Queue-- })},
	{"rejects instead of blocking", "OverflowBlock", options(func(o *Options) { o.Overflow = Reject })},
	{"rejects instead of dropping", "OverflowDropOldest", options(func(o *Options) { o.Overflow = Reject })},
	{"stops instead of draining", "Drain", wrapped(func(f *faulty) { f.drain = f.Executor.Stop })},
	{"drains instead of stopping", "Stop", wrapped(func(f *faulty) { f.stop = f.Executor.Drain })},
	{"closes instead of stopping", "Stop", wrapped(func(f *faulty) {
		f.stop = func(context.Context) error { return f.Executor.Close() }
	})},
	{"drains instead of closing", "Close", wrapped(func(f *faulty) {
		f.close = func() error { return f.Executor.Drain(context.Background()) }
	})},
	{"closes without waiting", "Close", wrapped(func(f *faulty) {
		f.close = func() error { // it closes when the clause has long looked
			time.AfterFunc(100*time.Millisecond, func() { _ = f.Executor.Close() })
			return nil
		}
	})},
	{"does not escalate", "DrainEscalates", wrapped(func(f *faulty) {
		f.drain = func(context.Context) error { return f.Executor.Drain(context.Background()) }
	})},
	{"does not escalate a stop", "StopEscalates", wrapped(func(f *faulty) {
		f.stop = func(context.Context) error { return f.Executor.Stop(context.Background()) }
	})},
	{"hides what its drain aborted", "DrainEscalates", wrapped(func(f *faulty) {
		f.drain = func(ctx context.Context) error { _ = f.Executor.Drain(ctx); return nil }
	})},
	{"hides what its stop aborted", "StopEscalates", wrapped(func(f *faulty) {
		f.stop = func(ctx context.Context) error { _ = f.Executor.Stop(ctx); return nil }
	})},
	{"hides what a Close aborted", "CloseDuringDrain", wrapped(func(f *faulty) {
		f.drain = func(ctx context.Context) error { _ = f.Executor.Drain(ctx); return context.Cause(ctx) }
		f.stop = func(ctx context.Context) error { _ = f.Executor.Stop(ctx); return context.Cause(ctx) }
	})},
	{"calls a good drain aborted", "EndingsThatAbortNothing", wrapped(func(f *faulty) {
		f.drain = func(ctx context.Context) error { return errors.Join(f.Executor.Drain(ctx), context.Cause(ctx)) }
	})},
	{"calls a good stop aborted", "EndingsThatAbortNothing", wrapped(func(f *faulty) {
		f.stop = func(ctx context.Context) error { return errors.Join(f.Executor.Stop(ctx), context.Cause(ctx)) }
	})},
	{"serializes its endings", "CloseDuringDrain", wrapped(func(f *faulty) {
		var mu sync.Mutex
		f.drain = func(ctx context.Context) error { mu.Lock(); defer mu.Unlock(); return f.Executor.Drain(ctx) }
		f.close = func() error { mu.Lock(); defer mu.Unlock(); return f.Executor.Close() }
	})},
	{"waits for ever for what is stuck", "CloseOfStubbornTask", options(func(o *Options) { o.Grace = time.Hour })},
	{"has a reason of its own for being closed", "SubmitAfterClose", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			err := f.Executor.Submit(ctx, t, done)
			if errors.Is(err, bullpen.ErrClosed) {
				return errors.New("closed")
			}
			return err
		}
	})},
	{"says that it has room when it is closed", "Close", wrapped(func(f *faulty) { f.capacity = func() int { return 1 } })},
	{"holds a lock over callbacks", "SlowCallback", wrapped(func(f *faulty) {
		var mu sync.Mutex
		f.capacity = func() int { mu.Lock(); defer mu.Unlock(); return f.Executor.Capacity() }
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { mu.Lock(); defer mu.Unlock(); done(r, err) })
		}
	})},
	{"takes queued tasks down with a worker", "WorkerKilledWhileRunning", wrapped(func(f *faulty) {
		var dead atomic.Bool
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				if o, started := bullpen.OutcomeOf(err); started && o == bullpen.Crashed {
					dead.Store(true)
				} else if dead.Load() {
					r, err = bullpen.Result{}, &bullpen.TaskError{Outcome: bullpen.Crashed, Task: t.Name, ID: t.ID}
				}
				done(r, err)
			})
		}
	})},
	{"takes an exit for a failure", "WorkerExits", answers(changeOutcome(bullpen.Crashed, bullpen.Failed))},
}

// TestBrokenExecutor is the body of the helper process of TestSuiteCatches.
func TestBrokenExecutor(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		return // this is not the helper process
	}
	if name != "nothing" { // a sound executor is given the time that a busy machine takes
		patience = time.Second
	}
	for _, f := range append(faults, fault{name: "nothing", make: func(o Options) bullpen.Executor { return newMortal(o) }}) {
		if f.name == name {
			Run(t, Factory{
				New: func(_ *testing.T, o Options) bullpen.Executor { return f.make(o) },
				KillWorker: func(_ *testing.T, e bullpen.Executor) {
					if broken, ok := e.(*faulty); ok {
						e = broken.Executor
					}
					e.(*reference).kill()
				},
			})
		}
	}
}

// TestSuiteCatches shows that every fault above is seen by the clause that is
// there for it, and that this clause passes when nothing is broken.
func TestSuiteCatches(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := runClause(t, f.name, f.clause)
			if err == nil || !strings.Contains(out, "--- FAIL: TestBrokenExecutor/"+f.clause) {
				t.Errorf("clause %s lets an executor pass that %s: %v\n%s", f.clause, f.name, err, out)
			}
			if strings.Contains(out, "panic: ") && f.clause != "Panic" {
				t.Errorf("clause %s falls over an executor that %s:\n%s", f.clause, f.name, out)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		if out, err := runClause(t, "nothing", "Random|Close|Stop|Drain|SlowCallback|Room"); err != nil {
			t.Errorf("the suite fails a sound executor: %v\n%s", err, out)
		}
	})
}

func runClause(t *testing.T, name, clause string) (string, error) {
	t.Helper()
	return runTest(t, name, "^TestBrokenExecutor$/^("+clause+")$")
}

// runTest runs one test of this binary in a process of its own, with a broken
// executor.
func runTest(t *testing.T, name, test string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.failfast", "-test.run="+test)
	c.Env = append(os.Environ(), brokenVariable+"="+name)
	out, err := c.CombinedOutput()
	return string(out), err
}
