package executortest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// taskError checks that err is a *TaskError with an outcome, and returns it.
func taskError(t *testing.T, err error, want bullpen.Outcome) *bullpen.TaskError {
	t.Helper()
	var te *bullpen.TaskError
	if !errors.As(err, &te) || te.Outcome != want {
		t.Fatalf("the task ended with %v, want a *TaskError with outcome %v", err, want)
	}
	return te
}

// wantOutcome checks that a task started and ended with an outcome.
func wantOutcome(t *testing.T, err error, want bullpen.Outcome) {
	t.Helper()
	_ = taskError(t, err, want)
}

// wantNeverStarted checks that err means that the task never started, for the reason why.
func wantNeverStarted(t *testing.T, err, why error) {
	t.Helper()
	if _, started := bullpen.OutcomeOf(err); started {
		t.Fatalf("the task ended with %v, want an error that says that it never started: %v", err, why)
	}
	if !errors.Is(err, why) {
		t.Fatalf("the task never started because %v, want %v", err, why)
	}
}

func testResults(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	meta := task("meta", "")
	meta.Meta = map[string]string{"attempt": "2", "traceparent": "00-ab-cd-01", "empty": "", "ünïcode": "\x00\xff\n"}
	limited := task("deadline", "")
	limited.Limits.Timeout = time.Minute
	for _, k := range []bullpen.Task{
		task("echo", ""),
		task("echo", "text"),
		task("echo", string([]byte{0, 1, 254, 255, '\n', '\r'})),
		task("echo", strings.Repeat("large ", 50_000)),
		{Name: "echo"}, // without an ID
		task("upper", "straße"),
		task("big", "0"),
		task("big", "70000"),
		task("big", "1048577"),
		meta,
		task("meta", ""),
		task("sleep", "1ms"),
	} {
		want, err := Handlers()[k.Name](t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.run(k)
		if err != nil || !bytes.Equal(r.Payload, want) {
			t.Errorf("%s gave %.40q (%d bytes), %v; a direct call gives %.40q (%d bytes)",
				describe(k), r.Payload, len(r.Payload), err, want, len(want))
		}
	}
	if r, err := s.run(limited); err != nil || string(r.Payload) != "yes" {
		t.Errorf("with a timeout the handler's context has a deadline: %q, %v, want yes", r.Payload, err)
	}
}

func testPayloadLeftAlone(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	for _, size := range []int{10, 100_000} {
		k := task("upper", strings.Repeat("a", size))
		k.Meta = map[string]string{"key": "value"}
		if _, err := s.run(k); err != nil {
			t.Fatal(err)
		}
		if string(k.Payload) != strings.Repeat("a", size) || len(k.Meta) != 1 || k.Meta["key"] != "value" {
			t.Errorf("the executor changed the payload or the metadata of a task of %d bytes", size)
		}
	}
}

func testFailure(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	for _, c := range []struct {
		payload string
		retry   bool
	}{{"final:no such user", false}, {"retry:busy", true}, {"plain:no idea", true}} {
		_, err := s.run(task("fail", c.payload))
		te := taskError(t, err, bullpen.Failed)
		if _, text, _ := strings.Cut(c.payload, ":"); !strings.Contains(te.Error(), text) {
			t.Errorf("the error %q does not say %q", te, text)
		}
		if te.Retryable != c.retry || bullpen.Retryable(err) != c.retry {
			t.Errorf("%s: Retryable is %v, want %v", c.payload, te.Retryable, c.retry)
		}
	}
	s.works()
}

func testPanic(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	_, err := s.run(task("panic", "out of cheese"))
	if te := taskError(t, err, bullpen.Panic); !strings.Contains(te.Error()+te.Stack, "out of cheese") {
		t.Errorf("the error %q does not say what was thrown", te)
	}
	s.works()
}

func testGoexit(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	for range 3 { // more often than there are workers, to show that none is lost
		_, err := s.run(task("goexit", ""))
		wantOutcome(t, err, bullpen.Panic)
	}
	s.works()
}

func testUnknownTask(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	s.works() // by now the executor knows the workers' tasks
	if checker, says := s.Executor.(bullpen.Checker); says {
		if err := checker.Check(task("nobody-serves-this", "x")); !errors.Is(err, bullpen.ErrUnknownTask) {
			t.Errorf("Check of an unknown task gave %v, want ErrUnknownTask", err)
		}
		if err := checker.Check(task("echo", "x")); err != nil {
			t.Errorf("Check of a task that runs gave %v", err)
		}
	}
	_, err := s.run(task("nobody-serves-this", "x"))
	wantNeverStarted(t, err, bullpen.ErrUnknownTask)
	s.works()
}

func testOutputLimit(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	for _, size := range []int{1000, 200_000} { // small and large results may be transferred in different ways
		k := task("big", strconv.Itoa(size))
		k.Limits.Output = size
		if r, err := s.run(k); err != nil || len(r.Payload) != size {
			t.Errorf("a result of %d bytes, just its bound: got %d bytes, %v", size, len(r.Payload), err)
		}
		k.Limits.Output = size - 1
		_, err := s.run(k)
		wantOutcome(t, err, bullpen.Output)
	}
	s.works()
}

func testRefusedLimits(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	for _, c := range []struct {
		name    string
		limits  bullpen.Limits
		refused bool
	}{
		{"Memory of 256 MiB", bullpen.Limits{Memory: 256 << 20}, !s.can.MemoryBound},
		{"CPU of 1", bullpen.Limits{CPU: 1}, !s.can.CPUBound},
		{"negative Timeout", bullpen.Limits{Timeout: -1}, true},
		{"negative Memory", bullpen.Limits{Memory: -1}, true},
		{"negative CPU", bullpen.Limits{CPU: -1}, true},
		{"negative Output", bullpen.Limits{Output: -1}, true},
	} {
		k := task("echo", "x")
		k.Limits = c.limits
		if checker, says := s.Executor.(bullpen.Checker); says {
			if err := checker.Check(k); errors.Is(err, bullpen.ErrRefused) != c.refused {
				t.Errorf("Check of a task with %s gave %v; refused is %v", c.name, err, c.refused)
			}
		}
		_, err := s.run(k)
		switch {
		case c.refused && !errors.Is(err, bullpen.ErrRefused):
			t.Errorf("a task with %s gave %v, want ErrRefused (Guarantees: %+v)", c.name, err, s.can)
		case !c.refused && err != nil:
			t.Errorf("a task with %s gave %v, want it run, as Guarantees promises", c.name, err)
		}
	}
	s.works()
}

func testStats(t *testing.T, f Factory) {
	f.needQueue(t)
	s := f.open(t, Options{Workers: 1})
	const nap = 40 * time.Millisecond
	g, _ := s.hold(t.Context())
	a := s.give(t.Context(), task("sleep", nap.String()))
	_ = wait(t.Context(), nap)
	g.open()
	r, err := a.wait(t)
	if err != nil {
		t.Fatal(err)
	}
	if r.Stats.Ran < nap/2 || r.Stats.Ran > patience {
		t.Errorf("the stats of a task that takes %v have a run time of %v", nap, r.Stats.Ran)
	}
	if r.Stats.Waited < nap/2 || r.Stats.Waited > patience {
		t.Errorf("the stats of a task that waited at least %v have a wait time of %v", nap, r.Stats.Waited)
	}
}

func testWorkersRunAtOnce(t *testing.T, f Factory) {
	const workers = 3
	s := f.open(t, Options{Workers: workers})
	if n := s.Capacity(); n < 1 {
		t.Errorf("a new executor reports a capacity of %d tasks", n)
	}
	var gates []*gate
	var answers []*answer
	for range workers {
		g, a := s.hold(t.Context()) // returns when the task runs, while those before it still do
		gates, answers = append(gates, g), append(answers, a)
	}
	for _, g := range gates {
		g.open()
	}
	for _, a := range answers {
		if _, err := a.wait(t); err != nil {
			t.Error(err)
		}
	}
}

// testNested makes a task submit to its own executor and wait, nested deeper than there are
// workers. It may get a result or an error, but it must end.
func testNested(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1, Queue: 1})
	key := strings.ReplaceAll(t.Name(), " ", "_")
	nests.Store(key, s.Executor)
	defer nests.Delete(key)
	r, err := s.run(task("nest", key+" 3"))
	switch string(r.Payload) {
	case elsewhere:
		t.Skip("the tasks run in another process, where they cannot reach this executor")
	case "bottom":
	default:
		if err == nil {
			t.Errorf("nested work gave %q", r.Payload)
		}
	}
	s.works()
}

func testExecute(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r, err := bullpen.Execute(ctx, s.Executor, task("upper", "abc")); err != nil || string(r.Payload) != "ABC" {
		t.Errorf("Execute() = %q, %v", r.Payload, err)
	}
	_, err := bullpen.Execute(ctx, s.Executor, task("fail", "final:no"))
	wantOutcome(t, err, bullpen.Failed)
	_, err = bullpen.Execute(ctx, s.Executor, task("nobody-serves-this", ""))
	wantNeverStarted(t, err, bullpen.ErrUnknownTask)

	g := s.gate()
	running, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() { // ends with the call, which the test waits for
		_, err := bullpen.Execute(running, s.Executor, g.task())
		result <- err
	}()
	g.awaitStart()
	stop()
	_ = within(t, "Execute after its context has ended", func() error { err = <-result; return nil })
	wantOutcome(t, err, bullpen.Canceled)
}
