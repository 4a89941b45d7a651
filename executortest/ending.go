package executortest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// queued submits tasks that wait behind the running ones, if tasks wait.
func (s *subject) queued(n int) []*answer {
	s.t.Helper()
	if s.inline {
		return nil
	}
	all := make([]*answer, n)
	for i := range all {
		all[i] = s.give(s.t.Context(), task("echo", fmt.Sprint("queued ", i)))
	}
	return all
}

// begin calls one of the ending methods without waiting for it.
func begin(end func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- end() }() // ends with the call; finish waits for it
	return ended
}

// finish waits for the call that begin made.
func finish(t *testing.T, what string, ended <-chan error) error {
	t.Helper()
	return within(t, what, func() error { return <-ended })
}

// awaitRefusal waits until the executor accepts no more tasks.
func (s *subject) awaitRefusal() {
	s.t.Helper()
	eventually(s.t, "new tasks are refused", func() bool {
		a := s.try(s.t.Context(), task("echo", "new"))
		if !a.isRefused() {
			return false
		}
		_, err := a.wait(s.t)
		wantNeverStarted(s.t, err, bullpen.ErrClosed)
		return true
	})
}

// wantGone checks that an executor that has ended behaves like one.
func (s *subject) wantGone() {
	s.t.Helper()
	a := s.try(s.t.Context(), task("echo", "new"))
	_, err := a.wait(s.t)
	wantNeverStarted(s.t, err, bullpen.ErrClosed)
	if n := s.Capacity(); n != 0 {
		s.t.Errorf("an executor that has ended reports a capacity of %d tasks", n)
	}
}

func testDrain(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1})
	g, first := s.hold(t.Context())
	waiting := s.queued(5)
	ended := begin(func() error { return s.Drain(t.Context()) })
	s.awaitRefusal()
	if len(ended) != 0 {
		t.Errorf("Drain returned %v while a task ran", <-ended)
	}
	g.open()
	for i, a := range append(waiting, first) {
		r, err := a.wait(t)
		if err != nil {
			t.Errorf("an accepted task ended with %v during Drain, want it finished", err)
		}
		if want := fmt.Sprint("queued ", i); i < len(waiting) && string(r.Payload) != want {
			t.Errorf("a queued task gave %q, want %q", r.Payload, want)
		}
	}
	if err := finish(t, "Drain", ended); err != nil {
		t.Errorf("Drain() = %v", err)
	}
	s.wantGone()
}

func testStop(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1})
	g, first := s.hold(t.Context())
	waiting := s.queued(5)
	ended := begin(func() error { return s.Stop(t.Context()) })
	for _, a := range waiting { // at once: the first one still runs
		_, err := a.wait(t)
		wantNeverStarted(t, err, bullpen.ErrClosed)
	}
	s.awaitRefusal()
	if first.known() || len(ended) != 0 {
		t.Error("Stop did not let the running task finish")
	}
	g.open()
	if _, err := first.wait(t); err != nil {
		t.Errorf("the running task ended with %v during Stop, want it finished", err)
	}
	if err := finish(t, "Stop", ended); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	s.wantGone()
}

// wantAborted checks the result of Close: the running task was canceled, and waiting tasks
// never started.
func wantAborted(t *testing.T, running *answer, waiting []*answer) {
	t.Helper()
	_, err := running.wait(t)
	wantOutcome(t, err, bullpen.Canceled)
	for _, a := range waiting {
		_, err := a.wait(t)
		wantNeverStarted(t, err, bullpen.ErrClosed)
	}
}

func testClose(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1})
	g, first := s.hold(t.Context())
	waiting := s.queued(5)
	if err := within(t, "Close", s.Close); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if !first.known() {
		t.Error("Close returned before the running task had its outcome")
	}
	wantAborted(t, first, waiting)
	g.awaitCancel()
	s.wantGone()
}

// testCloseStubborn closes an executor whose task ignores its context.
func testCloseStubborn(t *testing.T, f Factory) {
	const grace, stubborn = 50 * time.Millisecond, 2 * time.Second
	s := f.open(t, Options{Workers: 1, Grace: grace})
	s.works() // so that a worker is warm
	k := task("stubborn", stubborn.String())
	if s.can.Preemptive {
		k = task("spin", "1h")
	}
	a := s.give(t.Context(), k)
	_ = wait(t.Context(), 200*time.Millisecond) // such a task cannot signal that it has started
	begun := time.Now()
	err := within(t, "Close", s.Close)
	took := time.Since(begun)
	switch {
	case s.can.Preemptive && err != nil:
		t.Errorf("Close() = %v, though the executor can end every task", err)
	case !s.can.Preemptive && err == nil:
		t.Error("Close() = nil, though a task was stuck: want an error that names it")
	case took < grace/2 && !f.Unasked:
		t.Errorf("Close gave a running task only %v of %v", took, grace)
	case !s.can.Preemptive && took > stubborn*3/4:
		t.Errorf("Close took %v with a grace of %v", took, grace)
	}
	if _, err := a.wait(t); s.can.Preemptive {
		wantOutcome(t, err, bullpen.Canceled)
	}
}

func testDrainEscalates(t *testing.T, f Factory) {
	escalates(t, f, func(s *subject, ctx context.Context) error { return s.Drain(ctx) })
}

func testStopEscalates(t *testing.T, f Factory) {
	escalates(t, f, func(s *subject, ctx context.Context) error { return s.Stop(ctx) })
}

// escalates checks that an ending method continues as Close when its context ends.
func escalates(t *testing.T, f Factory, end func(*subject, context.Context) error) {
	t.Helper()
	s := f.open(t, Options{Workers: 1})
	_, first := s.hold(t.Context())
	waiting := s.queued(3)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := begin(func() error { return end(s, ctx) })
	s.awaitRefusal()
	if first.known() || len(ended) != 0 {
		t.Error("the running task was ended before the context was")
	}
	cancel(errPatience)
	wantAborted(t, first, waiting)
	if err := finish(t, "an ending whose context has ended", ended); !errors.Is(err, errPatience) {
		t.Errorf("an ending that aborted a task returned %v, want an error that wraps the cause of its context", err)
	}
	s.wantGone()
}

// errPatience is the cause of the contexts of ending methods.
var errPatience = errors.New("the caller gave up")

// testEndingsThatAbortNothing calls ending methods with a context that has already ended,
// when there is nothing to abort, or when the canceled task ends well nevertheless.
func testEndingsThatAbortNothing(t *testing.T, f Factory) {
	for _, way := range []struct {
		name string
		end  func(s *subject, ctx context.Context) error
		all  bool // it must also finish tasks that have not started
	}{
		{"Drain", func(s *subject, ctx context.Context) error { return s.Drain(ctx) }, true},
		{"Stop", func(s *subject, ctx context.Context) error { return s.Stop(ctx) }, false},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errPatience)
		s := f.open(t, Options{Workers: 1})
		s.works()
		if err := within(t, way.name, func() error { return way.end(s, ctx) }); err != nil {
			t.Errorf("%s of an executor without tasks = %v, want nil for any context", way.name, err)
		}
		s.wantGone()

		s = f.open(t, Options{Workers: 1})
		s.works() // so that a worker is warm
		a := s.give(t.Context(), task("stubborn", "300ms"))
		_ = wait(t.Context(), 100*time.Millisecond) // such a task cannot signal that it has started
		err := within(t, way.name, func() error { return way.end(s, ctx) })
		_, outcome := a.wait(t)
		_, started := bullpen.OutcomeOf(outcome)
		if kept := outcome == nil || !started && !way.all; kept != (err == nil) {
			t.Errorf("%s = %v, though its task ended with %v", way.name, err, outcome)
		}
		s.wantGone()
	}
}

func testCloseDuringDrain(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1})
	_, first := s.hold(t.Context())
	waiting := s.queued(3)
	drained := begin(func() error { return s.Drain(t.Context()) })
	s.awaitRefusal()
	stopped := begin(func() error { return s.Stop(t.Context()) })
	for _, a := range waiting { // the strongest call wins
		_, err := a.wait(t)
		wantNeverStarted(t, err, bullpen.ErrClosed)
	}
	if err := within(t, "Close during Drain", s.Close); err != nil {
		t.Errorf("Close() = %v", err)
	}
	wantAborted(t, first, waiting)
	for name, ended := range map[string]<-chan error{"Drain": drained, "Stop": stopped} {
		if s.inline && name == "Stop" {
			continue // without waiting tasks nothing shows that Stop began before Close
		}
		if finish(t, name+" during Close", ended) == nil {
			t.Errorf("%s() = nil, although Close aborted a task that %[1]s should have finished", name)
		}
	}
	s.wantGone()
}

func testEndingsTogether(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	_, running := s.hold(t.Context())
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() { // ends with the call; the test waits for it
			switch i % 3 {
			case 0:
				_ = s.Drain(t.Context())
			case 1:
				_ = s.Stop(t.Context())
			default:
				_ = s.Close()
			}
		})
	}
	_ = within(t, "twelve endings at once", func() error { all.Wait(); return nil })
	if _, err := running.wait(t); err == nil {
		t.Error("the running task ended well, want it canceled: the strongest ending wins")
	}
	for name, again := range map[string]func() error{
		"Drain": func() error { return s.Drain(t.Context()) },
		"Stop":  func() error { return s.Stop(t.Context()) },
		"Close": s.Close,
	} {
		if err := within(t, name+" once more", again); err != nil {
			t.Errorf("%s after the end = %v", name, err)
		}
	}
	s.wantGone()
}

func testSubmitAfterClose(t *testing.T, f Factory) {
	for _, overflow := range []Overflow{Block, Reject, DropOldest} {
		s := f.open(t, Options{Overflow: overflow})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		a := s.try(t.Context(), task("echo", "x"))
		if !a.isRefused() {
			t.Error("Submit after Close accepted a task")
		}
		_, err := a.wait(t)
		wantNeverStarted(t, err, bullpen.ErrClosed)
		_, err = bullpen.Execute(t.Context(), s.Executor, task("echo", "x"))
		wantNeverStarted(t, err, bullpen.ErrClosed)
	}
}

// testSlowCallback shows that a slow callback delays neither the methods of the executor
// nor the cancellation of other tasks.
func testSlowCallback(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, other := s.hold(ctx)
	inside, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(leave) }) }
	defer release() // even if the test fails, so that the executor can end
	submitted := begin(func() error {
		return s.Submit(t.Context(), task("echo", "x"), func(bullpen.Result, error) {
			close(inside)
			<-leave
		})
	})
	_ = within(t, "the callback of a task", func() error { <-inside; return nil })
	_ = within(t, "Capacity while a callback is slow", func() error { s.Capacity(); return nil })
	_ = within(t, "Guarantees while a callback is slow", func() error { s.Guarantees(); return nil })
	s.give(t.Context(), task("echo", "y")) // Submit returns; the answer may be delayed
	cancel()
	// On a busy machine, a slow task may be ended by force.
	eventually(t, "a task is asked to end", func() bool {
		return !g.files || exists(g.path+".ended") || s.can.Preemptive && other.known()
	})
	release()
	if err := finish(t, "Submit", submitted); err != nil {
		t.Error(errors.Join(errors.New("a task was refused"), err))
	}
	_, err := other.wait(t)
	wantOutcome(t, err, bullpen.Canceled)
	s.works()
}
