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

// patience bounds every wait of the suite. An executor that takes longer is considered
// hung.
var patience = 2 * time.Minute

// subject is an executor under test. It records the outcome of every task, and at the end
// of the test checks each against the general rules. It is an executor itself, without the
// faster methods of the one inside.
type subject struct {
	bullpen.Executor

	t       *testing.T
	can     bullpen.Guarantees
	unasked bool // Factory.Unasked
	inline  bool // Factory.Inline

	mu      sync.Mutex
	answers []*answer // guarded by mu
}

// answer is the outcome of one task.
type answer struct {
	task bullpen.Task
	ctx  context.Context //nolint:containedctx // whose cause the error must have; nothing is run by it
	done chan struct{}   // closed at the first answer, or when Submit refuses

	mu       sync.Mutex
	accepted bool           // guarded by mu
	refused  bool           // guarded by mu
	times    int            // calls of done; guarded by mu
	result   bullpen.Result // guarded by mu
	err      error          // guarded by mu
}

// open makes an executor and closes it at the end of the test. Zero options get default
// values.
func (f Factory) open(t *testing.T, o Options) *subject {
	t.Helper()
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Queue == 0 {
		o.Queue = 64
	}
	if o.Grace == 0 {
		o.Grace = 2 * time.Second
	}
	t.TempDir() // its cleanup runs last, after the executor whose tasks write there
	e := f.New(t, o)
	s := &subject{Executor: e, t: t, can: e.Guarantees(), unasked: f.Unasked, inline: f.Inline}
	t.Cleanup(func() {
		// The tests of Close check its error.
		_ = within(t, "Close at the end of the test", func() error { return e.Close() })
		s.verify()
	})
	return s
}

// Submit submits a task and records its outcome.
func (s *subject) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	_, err := s.submit(ctx, t, done)
	return err
}

func (s *subject) submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) (*answer, error) {
	a := s.expect(ctx, t)
	return a, s.hand(a, done)
}

// expect records a task that is about to be submitted.
func (s *subject) expect(ctx context.Context, t bullpen.Task) *answer {
	a := &answer{task: t, ctx: ctx, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	return a
}

// hand submits the task of a.
func (s *subject) hand(a *answer, done func(bullpen.Result, error)) error {
	err := s.Executor.Submit(a.ctx, a.task, func(r bullpen.Result, err error) {
		a.mu.Lock()
		a.times++
		first := a.times == 1 && !a.refused
		if first {
			a.result, a.err = r, err
		}
		a.mu.Unlock()
		if first {
			close(a.done)
			if done != nil {
				done(r, err)
			}
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accepted, a.refused = err == nil, err != nil
	if err != nil && a.times == 0 {
		a.err = err
		close(a.done)
	}
	return err
}

// soon is how long a test waits for a Submit that may run its task for longer.
const soon = 100 * time.Millisecond

// try submits a task, within a time limit. A refusal is an answer too. If Submit runs the task,
// try does not wait for one that takes long.
func (s *subject) try(ctx context.Context, t bullpen.Task) *answer {
	s.t.Helper()
	a := s.expect(ctx, t)
	if !s.inline {
		_ = within(s.t, "Submit of "+t.Name, func() error { return s.hand(a, nil) }) // a holds the error
		return a
	}
	returned := make(chan struct{})
	go func() { // ends with the task, which verify waits for, even by Goexit
		defer close(returned)
		_ = s.hand(a, nil) // a holds the error
	}()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
	}
	return a
}

// give submits a task that must be accepted.
func (s *subject) give(ctx context.Context, t bullpen.Task) *answer {
	s.t.Helper()
	a := s.try(ctx, t)
	if a.isRefused() {
		_, err := a.wait(s.t)
		s.t.Fatalf("Submit of %s = %v, want it accepted", t.Name, err)
	}
	return a
}

// run submits a task and waits for its end.
func (s *subject) run(t bullpen.Task) (bullpen.Result, error) {
	s.t.Helper()
	return s.try(s.t.Context(), t).wait(s.t)
}

// works checks that the executor still runs tasks.
func (s *subject) works() {
	s.t.Helper()
	if r, err := s.run(task("upper", "still there")); err != nil || string(r.Payload) != "STILL THERE" {
		s.t.Errorf("the task after it gave %q, %v, want a result", r.Payload, err)
	}
}

func (a *answer) isRefused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// known reports whether the answer has arrived.
func (a *answer) known() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// wait waits for the answer, and fails the test if it does not arrive.
func (a *answer) wait(t *testing.T) (bullpen.Result, error) {
	t.Helper()
	return a.waitFor(t, patience)
}

// waitFor is wait with another time limit.
func (a *answer) waitFor(t *testing.T, bound time.Duration) (bullpen.Result, error) {
	t.Helper()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		t.Fatalf("no answer to %s within %v", describe(a.task), bound)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result, a.err
}

// verify checks every answer against the general rules.
func (s *subject) verify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := time.NewTimer(patience)
	defer end.Stop()
	for _, a := range s.answers {
		select {
		case <-a.done:
		case <-end.C:
			s.t.Errorf("%s was accepted and has no outcome though the executor has ended", describe(a.task))
			return // further ones would only wait longer
		}
		if err := a.check(s.can); err != nil {
			s.t.Errorf("%s: %v", describe(a.task), err)
		}
	}
}

func (a *answer) check(can bullpen.Guarantees) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.accepted && a.times != 1:
		return fmt.Errorf("accepted and answered %d times, want exactly once", a.times)
	case a.refused && a.times != 0:
		return errors.New("refused by Submit and answered all the same")
	case a.err == nil:
		return nil
	case a.result.Payload != nil:
		return fmt.Errorf("there is a payload although the task ended with %w", a.err)
	}
	var te *bullpen.TaskError
	if !errors.As(a.err, &te) {
		return a.checkNeverStarted()
	}
	switch {
	case a.refused:
		return fmt.Errorf("Submit returned a *TaskError, which means that the task started: %w", a.err)
	case te.Outcome == bullpen.OK || int(te.Outcome) >= bullpen.OutcomeCount:
		return fmt.Errorf("the outcome of an error is %v: %w", te.Outcome, a.err)
	case te.Outcome == bullpen.Lost && can.Exact:
		return fmt.Errorf("the outcome is lost, which the executor promises not to give (Guarantees.Exact): %w", a.err)
	case te.Task != a.task.Name || te.ID != a.task.ID:
		return fmt.Errorf("the error is about task %q with id %q: %w", te.Task, te.ID, a.err)
	}
	return nil
}

// checkNeverStarted checks that the error wraps a documented reason.
func (a *answer) checkNeverStarted() error {
	for _, reason := range []error{bullpen.ErrClosed, bullpen.ErrOverloaded, bullpen.ErrUnknownTask, bullpen.ErrRefused, bullpen.ErrStart} {
		if errors.Is(a.err, reason) {
			return nil
		}
	}
	if cause := context.Cause(a.ctx); cause != nil && errors.Is(a.err, cause) {
		return nil
	}
	return fmt.Errorf("it never started, but the error wraps neither an error of package bullpen nor the cause of its context: %w", a.err)
}

func describe(t bullpen.Task) string {
	payload := t.Payload
	if len(payload) > 40 {
		payload = payload[:40]
	}
	return fmt.Sprintf("task %s %q", t.Name, payload)
}

func task(name, payload string) bullpen.Task {
	return bullpen.Task{Name: name, ID: "id-of-" + name, Payload: []byte(payload)}
}

// within makes a call that must return, and fails the test if it does not. The goroutine of
// a call that hangs is leaked.
func within(t *testing.T, what string, call func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- call() }() // ends with the call; within waits for it up to patience
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		t.Fatalf("%s did not return within %v", what, patience)
		return nil
	}
}

// eventually waits until a condition holds, and fails the test if it does not.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
