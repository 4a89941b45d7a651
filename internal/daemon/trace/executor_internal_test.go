package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/trace/tracetest"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
)

// tracer starts one to a collector.
func tracer(t testing.TB, share float64) (*Tracer, *tracetest.Collector) {
	t.Helper()
	to := tracetest.New()
	t.Cleanup(to.Close)
	tr, err := New(Config{Traces: settings.Traces{Endpoint: to.URL(), Sample: share}, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close(context.Background()) })
	return tr, to
}

// TestContract shows that a traced executor keeps the contract as the one below.
func TestContract(t *testing.T) {
	overflows := map[executortest.Overflow]pool.Overflow{
		executortest.Block: pool.Block, executortest.Reject: pool.Reject, executortest.DropOldest: pool.DropOldest,
	}
	tr, _ := tracer(t, 1)
	for name, wrap := range map[string]func(string, bullpen.Executor, *Starts) bullpen.Executor{"jobs": tr.Wrap, "tasks": tr.WrapEphemeral} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "jobs" {
				t.Skip("the contract runs once with -short")
			}
			executortest.Run(t, executortest.Factory{New: func(t *testing.T, o executortest.Options) bullpen.Executor {
				t.Helper()
				p, err := pool.New(pool.Config{
					Max: o.Workers, Queue: o.Queue, Overflow: overflows[o.Overflow], Grace: o.Grace, CloseGrace: o.Grace,
					Handlers: given(executortest.Handlers()),
				})
				if err != nil {
					t.Fatal(err)
				}
				return giving{wrap("p", p, new(Starts))}
			}})
		})
	}
}

// keyGiven is where the traceparent is that a task was given by its caller: the
// contract knows nothing of the other one that its worker gets.
const keyGiven = "given"

// giving notes the traceparent of tasks.
type giving struct{ bullpen.Executor }

func (g giving) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if had, ok := t.Meta[metaParent]; ok {
		t.Meta = maps.Clone(t.Meta)
		t.Meta[keyGiven] = had
	}
	return g.Executor.Submit(ctx, t, done)
}

// given gives handlers the traceparent that was noted.
func given(handlers map[string]bullpen.Handler) map[string]bullpen.Handler {
	for name, h := range handlers {
		handlers[name] = func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			had, ok := t.Meta[keyGiven]
			if !ok && len(t.Meta) == 1 {
				t.Meta = nil
			} else if t.Meta = maps.Clone(t.Meta); ok {
				t.Meta[metaParent] = had
				delete(t.Meta, keyGiven)
			} else {
				delete(t.Meta, metaParent)
			}
			return h(ctx, t)
		}
	}
	return handlers
}

// ends is an executor whose tasks end at once, as it says.
type ends struct {
	bullpen.Executor

	result  bullpen.Result
	err     error // of the task
	refused error // of Submit
}

func (e *ends) Submit(_ context.Context, _ bullpen.Task, done func(bullpen.Result, error)) error {
	if e.refused != nil {
		return e.refused
	}
	done(e.result, e.err)
	return nil
}

// TestRuns wants the ends of attempts to be reported with what is known of them.
func TestRuns(t *testing.T) {
	t.Parallel()
	dead := &bullpen.TaskError{Outcome: bullpen.Crashed, Worker: "w", Signal: "killed", ExitCode: -1, Message: "two\nlines"}
	exited := &bullpen.TaskError{Outcome: bullpen.Memory, Worker: "w", ExitCode: 0}
	stats := bullpen.Result{Stats: bullpen.Stats{Waited: time.Second, Ran: 2 * time.Second, Worker: "w", PeakMemory: 7}}
	for name, c := range map[string]struct {
		by     ends
		job    bool
		names  []string // of the spans
		failed bool     // the last one
		want   map[string]any
	}{
		"ok":               {ends{result: stats}, true, []string{"wait", "run x"}, false, map[string]any{keyOutcome: "ok", keyWorker: "w", keyPeak: int64(7), keyRan: 2.0, keyPID: nil}},
		"killed":           {ends{err: dead}, true, []string{"wait", "run x"}, true, map[string]any{keyOutcome: "crashed", keySignal: "killed", keyExit: nil, keyError: "crashed"}},
		"exited":           {ends{err: exited}, false, []string{"wait", "run x"}, true, map[string]any{keyOutcome: "memory", keySignal: nil, keyExit: int64(0), keyJob: nil, keyRun: "1"}},
		"of a type":        {ends{err: &bullpen.TaskError{Outcome: bullpen.Failed, Type: "ValueError"}}, true, []string{"wait", "run x"}, true, map[string]any{keyError: "ValueError", keyExit: nil}},
		"canceled":         {ends{err: &bullpen.TaskError{Outcome: bullpen.Canceled}}, true, []string{"wait", "run x"}, false, map[string]any{keyOutcome: "canceled", keyError: nil}},
		"given back":       {ends{err: bullpen.ErrClosed}, true, nil, false, nil},
		"refused job":      {ends{refused: bullpen.ErrOverloaded}, true, nil, false, nil},
		"refused task":     {ends{refused: bullpen.ErrOverloaded}, false, []string{"wait"}, true, map[string]any{keyOutcome: "never_started"}},
		"no worker":        {ends{err: fmt.Errorf("%w: [pass-word command]", bullpen.ErrStart)}, false, []string{"wait"}, true, nil},
		"secret":           {ends{err: &bullpen.TaskError{Message: "nats://me:pass-word@host", Outcome: bullpen.Failed}}, true, []string{"wait", "run x"}, true, nil},
		"never started":    {ends{err: bullpen.ErrUnknownTask}, false, []string{"wait"}, true, map[string]any{keyError: "never_started"}},
		"canceled waiting": {ends{err: context.Canceled}, false, []string{"wait"}, false, map[string]any{keyError: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, to := tracer(t, 1)
			wrap := tr.WrapEphemeral
			if c.job {
				wrap = tr.Wrap
			}
			x := wrap("p", &c.by, tr.Starts())
			ends := 0
			err := x.Submit(t.Context(), bullpen.Task{ID: "1", Name: "x"}, func(bullpen.Result, error) { ends++ })
			if !errors.Is(err, c.by.refused) || (ends == 1) != (c.by.refused == nil) {
				t.Errorf("Submit returned %v, and the end was reported %d times", err, ends)
			}
			tr.Close(within(t, 20*time.Second))
			all, err := to.Await(within(t, 20*time.Second), func(all []tracetest.Span) bool { return len(all) >= len(c.names) })
			if names := tracetest.Names(all); err != nil || strings.Join(names, ",") != strings.Join(c.names, ",") {
				t.Fatalf("the spans are %q, want %q; %v", names, c.names, err)
			}
			if len(all) == 0 {
				return
			}
			last := all[len(all)-1]
			if last.Failed != c.failed || strings.Contains(last.Message, "\n") || strings.Contains(last.Message, "pass-word") {
				t.Errorf("the last is %+v", last)
			}
			for key, want := range c.want {
				if got := last.Attributes[key]; got != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
		})
	}
}

// TestOneTrace wants the spans of a job without a traceparent to be one tree,
// whoever tells it.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	one, to := tracer(t, 1)
	other, err := New(Config{Traces: settings.Traces{Endpoint: to.URL(), Sample: 1}, Node: "other", Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	failed := &bullpen.TaskError{Outcome: bullpen.Failed}
	for i, tr := range []*Tracer{one, other} {
		by := ends{err: failed}
		if i == 1 {
			by.err = nil
		}
		task := bullpen.Task{ID: "1", Name: "x", Meta: map[string]string{"bullpen.attempt": string(rune('1' + i))}}
		if err := tr.Wrap("p", &by, nil).Submit(t.Context(), task, func(bullpen.Result, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	other.Ended(&job.Info{ID: "1", Name: "x", Queue: "p", State: job.Done, Enqueued: time.Now().Add(time.Hour), Ended: time.Now(), Attempts: 2})
	all, err := to.Await(within(t, 20*time.Second), func(all []tracetest.Span) bool { return len(all) == 6 })
	if err != nil {
		t.Fatal(err)
	}
	if tree, want := tracetest.Tree(all, all[0].Trace), "job x\n  wait\n  run x\n  wait\n  run x\n  outcome\n"; tree != want {
		t.Errorf("the tree is\n%s", tree)
	}
}

// TestStarts wants the start of a worker in the trace of who has waited for it.
func TestStarts(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var s Starts
	for _, e := range []level.Event{
		{Kind: level.Started, Worker: "w", PID: 7, Time: at(10)},
		{Kind: level.Ready, Worker: "w", PID: 7, Time: at(20)},
		{Kind: level.Ready, Worker: "unheard", Time: at(20)},
		{Kind: level.Started, Worker: "bad", PID: 8, Time: at(10)},
		{Kind: level.Mended, Time: at(11)},
	} {
		s.Note(&e)
	}
	run := func(worker string, accepted int) span {
		return span{worker: worker, accepted: at(accepted), start: at(21), end: at(30), waiting: SpanID{1}, trace: ID{2}}
	}
	r := run("w", 15)
	if began := s.of(&r); began == nil || !began.start.Equal(at(10)) || !began.end.Equal(at(20)) || began.parent != r.waiting || began.trace != r.trace || len(r.attributes) != 1 {
		t.Errorf("the start is %+v of %+v", began, r)
	}
	early := run("w", 15)
	early.start = at(19) // by another clock than the event's
	if began := s.of(&early); began == nil || !early.start.Equal(at(20)) {
		t.Errorf("the run begins at %v, before its worker was ready", early.start)
	}
	for name, r := range map[string]span{"it was ready before": run("w", 20), "it never was": run("bad", 15), "nobody knows it": run("x", 15), "nor this": run("unheard", 15)} {
		if began := s.of(&r); began != nil {
			t.Errorf("%s, and has %+v", name, began)
		}
	}
	s.Note(&level.Event{Kind: level.Ended, Worker: "w", Time: at(30)})
	if r := run("w", 15); s.of(&r) == nil {
		t.Error("it was forgotten at once")
	}
	s.Note(&level.Event{Kind: level.StartFailed, Worker: "bad", Time: at(31).Add(memory)})
	if r := run("w", 15); s.of(&r) != nil || len(s.all) != 1 {
		t.Errorf("it was not forgotten: %v", s.all)
	}
	var none *Starts
	none.Note(&level.Event{Kind: level.Started})
}

// TestLogger wants lines of tasks to have their traces, for a while after the end.
func TestLogger(t *testing.T) {
	t.Parallel()
	tr, _ := tracer(t, 1)
	var out bytes.Buffer
	log := tr.Logger(slog.New(slog.NewTextHandler(&out, nil))).With("pool", "p").WithGroup("g")
	tr.known.begin("a", ID{1})
	tr.known.begin("a", ID{1}) // another attempt, before the end of the first is reported
	tr.known.end("a")
	lines := func() string {
		defer out.Reset()
		log.Info("output", "id", "a")
		log.Info("queue", "n", 1, "job", "a")
		log.Info("other", "id", "b", "job", 7)
		return out.String()
	}
	if text := lines(); strings.Count(text, "g.trace_id="+ID{1}.String()) != 2 {
		t.Errorf("the log has\n%s", text)
	}
	tr.known.end("a")
	for range mostLately - 2 {
		tr.known.end("x")
	}
	if text := lines(); strings.Count(text, "trace_id") != 2 {
		t.Errorf("a moment later the log has\n%s", text)
	}
	for range 2 {
		tr.known.end("x")
	}
	if text := lines(); strings.Contains(text, "trace_id") || len(tr.known.all) != 0 {
		t.Errorf("long after the log has\n%s and %v are known", text, tr.known.all)
	}
	var none *Tracer
	if l := slog.Default(); none.Logger(l) != l {
		t.Error("without traces there is another logger")
	}
}

// TestNothing wants no traces to cost nothing: what is there is used as it is.
func TestNothing(t *testing.T) {
	none, err := New(Config{})
	if none != nil || err != nil {
		t.Fatalf("New without an endpoint gives %v, %v", none, err)
	}
	e := &ends{}
	if none.Wrap("p", e, none.Starts()) != bullpen.Executor(e) || none.WrapEphemeral("p", e, nil) != bullpen.Executor(e) || none.Routes(nil) != nil {
		t.Error("something is wrapped")
	}
	info := &job.Info{}
	if n := testing.AllocsPerRun(100, func() {
		none.Ended(info)
		none.Close(context.Background())
		if none.Counts() != (Counts{}) {
			t.Error("something was counted")
		}
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
	if _, err := New(Config{Traces: settings.Traces{Endpoint: "nowhere", Sample: 3}, Pause: -1}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults are reported as %v", err)
	}
}

// taking is a network to a collector that takes everything.
type taking struct{}

func (taking) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, err
}

// BenchmarkSubmit is what a task costs more with traces, sampled and not, with the
// encoding.
func BenchmarkSubmit(b *testing.B) {
	var none *Tracer
	all, err := New(Config{Traces: settings.Traces{Endpoint: "http://localhost:4318", Sample: 1}})
	if err != nil {
		b.Fatal(err)
	}
	all.exporter.client.Transport = taking{}
	defer all.Close(b.Context())
	meta := map[string]string{"traceparent": valid}
	not := map[string]string{"traceparent": valid[:54] + "0"}
	for _, c := range []struct {
		name string
		by   *Tracer
		meta map[string]string
	}{{"off", none, meta}, {"not sampled", all, not}, {"sampled", all, meta}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			x := c.by.Wrap("p", &ends{}, c.by.Starts())
			for b.Loop() {
				if err := x.Submit(b.Context(), bullpen.Task{ID: "1", Name: "x", Meta: c.meta}, func(bullpen.Result, error) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
