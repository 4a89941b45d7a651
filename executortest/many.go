package executortest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// numbered yields n tasks, every seventh of which fails. reads counts the tasks read.
func numbered(n int, reads *atomic.Int64) iter.Seq[bullpen.Task] {
	return func(yield func(bullpen.Task) bool) {
		for i := range n {
			reads.Add(1)
			if !yield(numberedTask(i)) {
				return
			}
		}
	}
}

func numberedTask(i int) bullpen.Task {
	if i%7 == 3 {
		return task("fail", fmt.Sprint("final:number ", i))
	}
	return task("upper", fmt.Sprint("number ", i))
}

// checkNumbered checks the outcome of task i.
func checkNumbered(t *testing.T, i int, e bullpen.Ended) {
	t.Helper()
	if e.Index != i || e.Task.Name != numberedTask(i).Name {
		t.Fatalf("got task %d (%s), want task %d", e.Index, describe(e.Task), i)
	}
	if i%7 == 3 {
		if o, started := bullpen.OutcomeOf(e.Err); !started || o != bullpen.Failed || !strings.Contains(e.Err.Error(), fmt.Sprint("number ", i)) {
			t.Errorf("task %d ended with %v, want its own failure", i, e.Err)
		}
	} else if want := fmt.Sprint("NUMBER ", i); e.Err != nil || string(e.Result.Payload) != want {
		t.Errorf("task %d gave %q, %v, want %q", i, e.Result.Payload, e.Err, want)
	}
}

func testHandle(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{})
	g := s.gate()
	h, err := bullpen.Start(t.Context(), s, g.task())
	if err != nil {
		t.Fatal(err)
	}
	g.awaitStart()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	if _, err := h.Wait(ended); !errors.Is(err, bullpen.ErrWaiting) || !errors.Is(err, errWhy) {
		t.Errorf("Wait() = %v, want ErrWaiting and the cause", err)
	}
	select {
	case <-h.Done():
		t.Error("the end of a wait ended the task")
	default:
	}
	g.open()
	bound, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for range 2 { // repeated calls are allowed
		if _, err := h.Wait(bound); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(); err != nil {
			t.Fatal(err)
		}
	}
	h.Cancel(errWhy) // too late to have an effect

	h, err = bullpen.Start(t.Context(), s, task("block", ""))
	if err != nil {
		t.Fatal(err)
	}
	h.Cancel(errWhy)
	if _, err := h.Wait(bound); !errors.Is(err, context.Canceled) && !errors.Is(err, errWhy) {
		t.Errorf("a task canceled by its handle ended with %v", err)
	}
}

func testExecuteAll(t *testing.T, f Factory) {
	const n = 300 // more than fit into the queue
	s := f.open(t, Options{Queue: 16})
	tasks := make([]bullpen.Task, n)
	for i := range tasks {
		tasks[i] = numberedTask(i)
	}
	for name, e := range map[string]bullpen.Executor{"with its own way": s.Executor, "by Submit": s} {
		var all []bullpen.Ended
		_ = within(t, "ExecuteAll "+name, func() error { all = bullpen.ExecuteAll(t.Context(), e, tasks); return nil })
		if len(all) != n {
			t.Fatalf("ExecuteAll %s returned %d results for %d tasks", name, len(all), n)
		}
		for i, ended := range all {
			checkNumbered(t, i, ended)
		}
		if all := bullpen.ExecuteAll(t.Context(), e, nil); len(all) != 0 {
			t.Errorf("ExecuteAll %s without tasks returned %d results", name, len(all))
		}
	}
}

func testMapInOrder(t *testing.T, f Factory) {
	const n = 300
	s := f.open(t, Options{Queue: 16})
	var reads atomic.Int64
	next := 0
	_ = within(t, "Map", func() error {
		for e := range bullpen.Map(t.Context(), s, numbered(n, &reads), bullpen.MapOptions{}) {
			checkNumbered(t, next, e)
			next++
		}
		return nil
	})
	if next != n {
		t.Errorf("Map returned %d results for %d tasks", next, n)
	}
}

func testMapAsCompleted(t *testing.T, f Factory) {
	f.needQueue(t)
	const n = 50
	s := f.open(t, Options{Workers: 2, Queue: 16})
	g := s.gate()
	var reads atomic.Int64
	tasks := func(yield func(bullpen.Task) bool) {
		if yield(g.task()) { // number 0 ends only after all others
			for k := range numbered(n, &reads) {
				if !yield(k) {
					return
				}
			}
		}
	}
	seen := map[int]bool{}
	last := -1
	_ = within(t, "Map as completed", func() error {
		for e := range bullpen.Map(t.Context(), s, tasks, bullpen.MapOptions{AsCompleted: true}) {
			if seen[e.Index] {
				t.Errorf("task %d was given twice", e.Index)
			}
			seen[e.Index], last = true, e.Index
			if e.Index > 0 {
				e.Index--
				checkNumbered(t, e.Index, e)
			}
			if len(seen) == n {
				g.open()
			}
		}
		return nil
	})
	if len(seen) != n+1 {
		t.Errorf("Map returned %d results for %d tasks", len(seen), n+1)
	}
	if g.files && last != 0 {
		t.Errorf("the slowest task is not the last one: %d is", last)
	}
}

func testMapAhead(t *testing.T, f Factory) {
	const n, ahead = 60, 5
	s := f.open(t, Options{Queue: 16})
	var reads atomic.Int64
	given := 0
	_ = within(t, "Map with a bound", func() error {
		for e := range bullpen.Map(t.Context(), s, numbered(n, &reads), bullpen.MapOptions{Ahead: ahead}) {
			checkNumbered(t, given, e)
			given++
			_ = wait(t.Context(), time.Millisecond) // simulates a consumer that is slower than the tasks
			// One task may have been read and be waiting for its slot.
			if r := int(reads.Load()); r > given+ahead+1 {
				t.Errorf("%d tasks were read when %d results had been taken, with a bound of %d", r, given, ahead)
			}
		}
		return nil
	})
	if given != n {
		t.Errorf("Map returned %d results for %d tasks", given, n)
	}
}

func testMapLeftEarly(t *testing.T, f Factory) {
	s := f.open(t, Options{Queue: 16})
	var reads atomic.Int64
	given := 0
	_ = within(t, "Map left early", func() error {
		for e := range bullpen.Map(t.Context(), s, numbered(1_000_000, &reads), bullpen.MapOptions{Ahead: 32}) {
			checkNumbered(t, given, e)
			if given++; given == 10 {
				break
			}
		}
		return nil
	})
	if r := reads.Load(); r > 1000 {
		t.Errorf("%d tasks were read for 10 results", r)
	}
	s.wantAllAnswered()
	s.works()
}

func testMapCanceled(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1, Queue: 4})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	tasks := func(yield func(bullpen.Task) bool) {
		for yield(task("block", "")) {
			continue
		}
	}
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(errWhy) })
	defer timer.Stop()
	_ = within(t, "Map whose context ends", func() error {
		for e := range bullpen.Map(ctx, s, tasks, bullpen.MapOptions{}) {
			if e.Err == nil {
				t.Errorf("task %d, which waits for its end, gave a result", e.Index)
			}
		}
		return nil
	})
	s.wantAllAnswered()
	s.works()
}

// wantAllAnswered checks that every submitted task has an answer.
func (s *subject) wantAllAnswered() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.answers {
		if !a.known() {
			s.t.Errorf("Map returned and %s goes on", describe(a.task))
		}
	}
}
