package executortest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// errWhy is the cause for which the suite cancels tasks.
var errWhy = errors.New("the test has ended")

// unstarted makes a task that must not run, and a function that reports whether it did.
func (s *subject) unstarted() (k bullpen.Task, ran func() bool) {
	file := filepath.Join(s.t.TempDir(), "marks")
	k = task("mark", file+" ran 0s")
	return k, func() bool { return !s.can.NoFilesystem && exists(file) }
}

func testTimeout(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	k := task("block", "")
	k.Limits.Timeout = 30 * time.Millisecond
	begin := time.Now()
	_, err := s.run(k)
	wantOutcome(t, err, bullpen.Timeout)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("errors.Is(%v, context.DeadlineExceeded) is false", err)
	}
	if took := time.Since(begin); took < k.Limits.Timeout {
		t.Errorf("a timeout of %v was reached after %v", k.Limits.Timeout, took)
	}
	k = task("echo", "in time")
	k.Limits.Timeout = time.Minute
	if r, err := s.run(k); err != nil || string(r.Payload) != "in time" {
		t.Errorf("a task that keeps its timeout gave %q, %v", r.Payload, err)
	}
	s.works()
}

func testTimeoutNotWaiting(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1})
	g, _ := s.hold(t.Context())
	k := task("echo", "x")
	k.Limits.Timeout = 300 * time.Millisecond
	a := s.give(t.Context(), k)
	_ = wait(t.Context(), k.Limits.Timeout+50*time.Millisecond)
	g.open()
	if _, err := a.wait(t); err != nil {
		t.Errorf("a task that waited longer than its timeout and ran at once gave %v: Limits.Timeout is run time", err)
	}
}

func testDeadlineRunning(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	if s.can.NoFilesystem {
		t.Skip("a task without files cannot report its start (Guarantees.NoFilesystem)")
	}
	s.works() // so that a worker is warm
	// The deadline leaves the task enough time to start.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	g, a := s.hold(ctx)
	_, err := a.wait(t)
	wantOutcome(t, err, bullpen.Timeout)
	g.awaitCancel()
	s.works()
}

func testDeadlineQueued(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1})
	g, first := s.hold(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	k, ran := s.unstarted()
	_, err := s.try(ctx, k).wait(t) // while the first one still runs
	wantNeverStarted(t, err, context.DeadlineExceeded)
	g.open()
	if _, err := first.wait(t); err != nil {
		t.Error(err)
	}
	s.works()
	if ran() {
		t.Error("a task ran although its error says that it never started")
	}
}

func testCancelQueued(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1})
	g, first := s.hold(t.Context())
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	k, ran := s.unstarted()
	a := s.give(ctx, k)
	after := s.give(t.Context(), task("echo", "next"))
	cancel(errWhy)
	_, err := a.wait(t) // at once: the first one still runs
	wantNeverStarted(t, err, errWhy)
	if first.known() {
		t.Error("the running task ended too")
	}
	g.open()
	for _, other := range []*answer{first, after} {
		if _, err := other.wait(t); err != nil {
			t.Error(err)
		}
	}
	if ran() {
		t.Error("a task ran although its error says that it never started")
	}
}

func testCancelRunning(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 2})
	other, still := s.hold(t.Context())
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	g, a := s.hold(ctx)
	cancel(errWhy)
	_, err := a.wait(t)
	wantOutcome(t, err, bullpen.Canceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("errors.Is(%v, context.Canceled) is false", err)
	}
	g.awaitCancel()
	other.open()
	if _, err := still.wait(t); err != nil {
		t.Errorf("its neighbour ended with %v", err)
	}
	s.works()
}

func testCanceledBefore(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	k, ran := s.unstarted()
	_, err := s.try(ctx, k).wait(t)
	wantNeverStarted(t, err, errWhy)
	s.works()
	if ran() {
		t.Error("a task ran although its context had ended before Submit")
	}
}

func testPreemption(t *testing.T, f Factory) {
	s := f.open(t, Options{Grace: 50 * time.Millisecond})
	need(t, "Preemptive", s.can.Preemptive, "a task that ignores its context would run for ever", s.can.Notes...)
	for _, name := range []string{"spin", "stubborn"} {
		k := task(name, "1h")
		k.Limits.Timeout = 20 * time.Millisecond
		_, err := s.run(k)
		wantOutcome(t, err, bullpen.Timeout)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = s.give(ctx, task(name, "1h")).wait(t)
		if o, started := bullpen.OutcomeOf(err); started && o != bullpen.Canceled {
			t.Errorf("a canceled task that ignores its context ended with %v", err)
		}
	}
	s.works()
}
