package executortest

import (
	"context"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// queueSize is the size of the queues that the tests overflow.
const queueSize = 3

// plenty is more tasks than a full executor with one worker and such a queue accepts, even
// if it hands several tasks to its worker in advance.
const plenty = queueSize + 100

func testReject(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1, Queue: queueSize, Overflow: Reject})
	g, first := s.hold(t.Context())
	accepted := []*answer{first}
	var last *answer
	for range plenty {
		if last = s.try(t.Context(), task("echo", "x")); last.isRefused() {
			break
		}
		accepted = append(accepted, last)
	}
	if !last.isRefused() {
		t.Fatalf("%d tasks were accepted for a queue of %d while the one worker was busy", plenty, queueSize)
	}
	_, err := last.wait(t)
	wantNeverStarted(t, err, bullpen.ErrOverloaded)
	if n := len(accepted) - 1; n < queueSize {
		t.Errorf("only %d tasks could wait in a queue of %d", n, queueSize)
	}
	g.open()
	for _, a := range accepted {
		if _, err := a.wait(t); err != nil {
			t.Errorf("an accepted task ended with %v", err)
		}
	}
	s.works()
}

// fill submits tasks until the queue is full, so that Submit blocks until its context ends.
func (s *subject) fill() []*answer {
	s.t.Helper()
	var accepted []*answer
	for range plenty {
		ctx, cancel := context.WithCancelCause(s.t.Context())
		timer := time.AfterFunc(100*time.Millisecond, func() { cancel(errWhy) })
		a := s.try(ctx, task("echo", "x"))
		if a.isRefused() {
			cancel(nil)
			_, err := a.wait(s.t)
			wantNeverStarted(s.t, err, errWhy)
			return accepted
		}
		if !timer.Stop() {
			s.t.Fatal("Submit accepted a task although its context had ended")
		}
		s.t.Cleanup(func() { cancel(nil) })
		accepted = append(accepted, a)
	}
	s.t.Fatalf("%d tasks were accepted for a queue of %d while the one worker was busy", plenty, queueSize)
	return nil
}

func testBlock(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1, Queue: queueSize, Overflow: Block})
	g, first := s.hold(t.Context())
	accepted := s.fill()
	if len(accepted) < queueSize {
		t.Errorf("only %d tasks could wait in a queue of %d", len(accepted), queueSize)
	}
	blocked := make(chan *answer, 1)
	go func() { // ends with Submit, which the test waits for
		a, _ := s.submit(t.Context(), task("upper", "waited"), nil)
		blocked <- a
	}()
	_ = wait(t.Context(), 20*time.Millisecond)
	if len(blocked) != 0 {
		t.Error("Submit did not wait for room")
	}
	g.open()
	var late *answer
	_ = within(t, "Submit after room was made", func() error { late = <-blocked; return nil })
	if r, err := late.wait(t); err != nil || string(r.Payload) != "WAITED" {
		t.Errorf("a task whose Submit had to wait gave %q, %v", r.Payload, err)
	}
	for _, a := range append(accepted, first) {
		if _, err := a.wait(t); err != nil {
			t.Errorf("an accepted task ended with %v", err)
		}
	}
}

func testDropOldest(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1, Queue: queueSize, Overflow: DropOldest})
	g, first := s.hold(t.Context())
	answers := make([]*answer, plenty)
	for i := range answers {
		answers[i] = s.give(t.Context(), task("echo", "x"))
	}
	// A dropped task is answered immediately, while the worker is still busy.
	eventually(t, "a task is dropped from the full queue", func() bool {
		n := 0
		for _, a := range answers {
			if a.known() {
				n++
			}
		}
		return n > 0
	})
	g.open()
	if _, err := first.wait(t); err != nil {
		t.Errorf("the running task ended with %v", err)
	}
	dropped := make([]bool, plenty)
	for i, a := range answers {
		_, err := a.wait(t)
		if dropped[i] = err != nil; dropped[i] {
			wantNeverStarted(t, err, bullpen.ErrOverloaded)
		}
	}
	changes := 0 // first held by the worker in advance, then dropped, then kept
	for i := range dropped[1:] {
		if dropped[i+1] != dropped[i] {
			changes++
		}
	}
	if changes > 2 {
		t.Errorf("not the oldest tasks were dropped: %v", dropped)
	}
	for i := plenty - queueSize; i < plenty; i++ {
		if dropped[i] {
			t.Errorf("of %d tasks number %d was dropped from a queue of %d", plenty, i, queueSize)
		}
	}
	s.works()
}

func testCloseEndsBlockedSubmit(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1, Queue: queueSize, Overflow: Block})
	s.hold(t.Context())
	s.fill()
	blocked := make(chan *answer, 1)
	go func() { // ends with Submit, which the test waits for
		a, _ := s.submit(t.Context(), task("echo", "x"), nil)
		blocked <- a
	}()
	_ = wait(t.Context(), 20*time.Millisecond) // in most runs Submit blocks by now
	_ = within(t, "Close", s.Close)            // the tests of Close check its error
	var late *answer
	_ = within(t, "a blocked Submit after Close", func() error { late = <-blocked; return nil })
	_, err := late.wait(t) // refused, or accepted at the last moment and then failed
	wantNeverStarted(t, err, bullpen.ErrClosed)
}
