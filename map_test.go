package bullpen_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// scripted is an executor whose tasks end when the test says so: Submit sends
// each task to the channel.
type scripted struct {
	*inline

	given chan given
}

type given struct {
	ctx  context.Context //nolint:containedctx // what the executor was handed
	task bullpen.Task
	done func(bullpen.Result, error)
}

func newScripted() *scripted { return &scripted{newInline(), make(chan given, 100)} }

func (s *scripted) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.given <- given{ctx, t, done}
	return nil
}

// answer ends a task with its own payload.
func (g given) answer() { g.done(bullpen.Result{Payload: g.task.Payload}, nil) }

// letters yields n tasks named a, b, c ..., and counts how many were read.
func letters(n int, read *int) iter.Seq[bullpen.Task] {
	return func(yield func(bullpen.Task) bool) {
		for i := range n {
			*read++
			if !yield(bullpen.Task{Payload: []byte{byte('a' + i)}}) {
				return
			}
		}
	}
}

// gather runs Map in a goroutine and sends what it yields.
func gather(ctx context.Context, e bullpen.Executor, tasks iter.Seq[bullpen.Task], o bullpen.MapOptions) <-chan bullpen.Ended {
	all := make(chan bullpen.Ended)
	go func() { // ends with Map; the reader of the channel waits for it
		defer close(all)
		for ended := range bullpen.Map(ctx, e, tasks, o) {
			all <- ended
		}
	}()
	return all
}

// order ends 5 tasks in the order c, a, e, b, d and returns the results in the
// order in which Map gives them.
func order(t *testing.T, o bullpen.MapOptions) string {
	t.Helper()
	s, read := newScripted(), 0
	all := gather(t.Context(), s, letters(5, &read), o)
	tasks := map[string]given{}
	for range 5 {
		g := <-s.given
		tasks[string(g.task.Payload)] = g
	}
	go func() { // ends after 5 answers, which the loop below reads
		for name := range strings.SplitSeq("caebd", "") {
			tasks[name].answer()
		}
	}()
	var got strings.Builder
	for ended := range all {
		got.Write(ended.Result.Payload)
		if want := int(ended.Task.Payload[0] - 'a'); ended.Index != want {
			t.Errorf("task %s has index %d, want %d", ended.Task.Payload, ended.Index, want)
		}
	}
	return got.String()
}

func TestMapOrder(t *testing.T) {
	t.Parallel()
	if got := order(t, bullpen.MapOptions{}); got != "abcde" {
		t.Errorf("in order: %s, want abcde", got)
	}
	if got := order(t, bullpen.MapOptions{AsCompleted: true}); got != "caebd" {
		t.Errorf("as completed: %s, want caebd", got)
	}
}

func TestMapReadsNoFurtherThanAhead(t *testing.T) {
	t.Parallel()
	for _, o := range []bullpen.MapOptions{{Ahead: 3}, {Ahead: 3, AsCompleted: true}} {
		synctest.Test(t, func(t *testing.T) {
			s, read := newScripted(), 0
			all := gather(t.Context(), s, letters(10, &read), o)
			synctest.Wait()
			// Three are with the executor; a fourth may have been read already.
			if len(s.given) != 3 || read > 4 {
				t.Errorf("%+v: %d tasks read and %d handed over before any ended, want 3", o, read, len(s.given))
			}
			for given := range 10 {
				(<-s.given).answer()
				ended := <-all
				synctest.Wait()
				if ended.Index != given || read > given+1+4 {
					t.Errorf("%+v: %d tasks read when %d results had been taken", o, read, given+1)
				}
			}
			if _, more := <-all; more {
				t.Errorf("%+v: more results than tasks", o)
			}
		})
	}
}

func TestMapLeftEarlyCancelsAndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, read, returned := newScripted(), 0, false
		go func() { // ends when the open tasks have ended; the test checks that
			for range bullpen.Map(t.Context(), s, letters(10, &read), bullpen.MapOptions{Ahead: 4}) {
				break
			}
			returned = true
		}()
		synctest.Wait() // so that others are open when the first ends
		(<-s.given).answer()
		synctest.Wait()
		if returned {
			t.Error("Map returned while tasks were open")
		}
		for range len(s.given) {
			g := <-s.given
			if g.ctx.Err() == nil {
				t.Errorf("task %s was not canceled", g.task.Payload)
			}
			g.done(bullpen.Result{}, &bullpen.TaskError{Outcome: bullpen.Canceled})
		}
		synctest.Wait()
		if !returned {
			t.Error("Map did not return when all tasks had ended")
		}
	})
}

func TestMapWhoseContextEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, read := newScripted(), 0
		all := gather(ctx, s, letters(20, &read), bullpen.MapOptions{Ahead: 3})
		synctest.Wait()
		cancel(why)
		for range len(s.given) {
			g := <-s.given
			g.done(bullpen.Result{}, context.Cause(g.ctx))
		}
		for ended := range all {
			if !errors.Is(ended.Err, why) {
				t.Errorf("task %d ended with %v, want the cause of the context", ended.Index, ended.Err)
			}
		}
		if read > 6 {
			t.Errorf("%d tasks were read though the context had ended", read)
		}
	})
}

func TestMapGivesRefusalsAsResults(t *testing.T) {
	t.Parallel()
	e := newInline()
	tasks := append(upper("a b"), bullpen.Task{Name: "fly"})
	var got []string
	for ended := range bullpen.Map(t.Context(), e, slices.Values(tasks), bullpen.MapOptions{}) {
		got = append(got, fmt.Sprintf("%s %v", ended.Result.Payload, ended.Err))
	}
	want := []string{"A <nil>", "B <nil>", " unknown task"}
	if !slices.Equal(got, want) {
		t.Errorf("Map gave %q, want %q", got, want)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for ended := range bullpen.Map(t.Context(), e, slices.Values(tasks), bullpen.MapOptions{}) {
		if !errors.Is(ended.Err, bullpen.ErrClosed) {
			t.Errorf("after Close task %d ended with %v", ended.Index, ended.Err)
		}
	}
}

func TestMapOfNothing(t *testing.T) {
	t.Parallel()
	for range bullpen.Map(t.Context(), newInline(), func(func(bullpen.Task) bool) {}, bullpen.MapOptions{}) {
		t.Error("Map gave a result without a task")
	}
}

func TestMapMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	seq := bullpen.Map(t.Context(), newInline(), slices.Values(upper("a b c")), bullpen.MapOptions{})
	for range 2 {
		if n := len(slices.Collect(seq)); n != 3 {
			t.Errorf("Map gave %d results to 3 tasks", n)
		}
	}
}

func TestMapBoundsDoNotSlowItDown(t *testing.T) {
	t.Parallel()
	const n = 10_000
	s := newScripted()
	go func() { // ends with the last task
		for range n {
			(<-s.given).answer()
		}
	}()
	tasks := func(yield func(bullpen.Task) bool) {
		for range n {
			if !yield(bullpen.Task{Payload: []byte("x")}) {
				return
			}
		}
	}
	begin, got := time.Now(), 0
	for range bullpen.Map(t.Context(), s, tasks, bullpen.MapOptions{Ahead: 2}) {
		got++
	}
	if took := time.Since(begin); got != n || took > 20*time.Second {
		t.Errorf("%d of %d results in %v", got, n, took)
	}
}
