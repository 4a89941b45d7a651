package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/trace/tracetest"
)

// traced is a daemon whose traces go to a collector.
type traced struct {
	*node

	to *tracetest.Collector
}

// tracedNode runs a daemon with pools whose traces are exported.
func tracedNode(t *testing.T, more string, pools ...string) *traced {
	t.Helper()
	to := tracetest.New()
	t.Cleanup(to.Close)
	n := openText(t, fmt.Sprintf("%straces: {endpoint: %q, %s}\npools:\n%s", base, to.URL(), more, strings.Join(pools, "")))
	n.begin()
	select {
	case <-n.Ready():
	case <-time.After(time.Minute):
		t.Fatalf("not ready after a minute\n%s", n.journal)
	}
	return &traced{n, to}
}

// A trace of somebody who calls.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	callerSays  = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// call sends a request from within a trace, or none where says is empty.
func (n *traced) call(says, path, body string) answer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if says != "" {
		r.Header.Set("Traceparent", says)
		r.Header.Set("Tracestate", "a=b")
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

// await waits for spans of a trace until there are n of them, and returns them by
// their names; of several with one name the attempt is added.
func (n *traced) await(trace string, count int) map[string]tracetest.Span {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	of := func(all []tracetest.Span) (own []tracetest.Span) {
		for _, s := range all {
			if s.Trace == trace {
				own = append(own, s)
			}
		}
		return own
	}
	all, err := n.to.Await(ctx, func(all []tracetest.Span) bool { return len(of(all)) >= count })
	if err != nil {
		n.t.Fatalf("trace %s: %v", trace, err)
	}
	named := map[string]tracetest.Span{}
	for _, s := range of(all) {
		if i, ok := s.Attributes["bullpen.attempt"].(int64); ok {
			s.Name = fmt.Sprint(s.Name, " ", i)
		}
		if _, there := named[s.Name]; there {
			n.t.Errorf("there are two spans %q", s.Name)
		}
		named[s.Name] = s
	}
	return named
}

// wantBelow wants spans to hang below another, within their times.
func wantBelow(t *testing.T, all map[string]tracetest.Span, above string, names ...string) {
	t.Helper()
	parent, ok := all[above]
	if !ok {
		t.Fatalf("there is no span %q in %v", above, all)
	}
	for _, name := range names {
		s, ok := all[name]
		switch {
		case !ok:
			t.Errorf("there is no span %q", name)
		case s.Parent != parent.ID:
			t.Errorf("%q hangs below %s, want %q", name, s.Parent, above)
		}
	}
}

// wantAttributes wants attributes of a span; nil is any value.
func wantAttributes(t *testing.T, s tracetest.Span, want map[string]any) {
	t.Helper()
	for key, value := range want {
		got, there := s.Attributes[key]
		if !there || value != nil && got != value {
			t.Errorf("%s of %q is %v, want %v", key, s.Name, got, value)
		}
	}
}

// TestTraceOfAJob follows a job from the caller to the handler and back.
func TestTraceOfAJob(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "service: jobs, headers: {X-Scope: hidden}", mine(t, "p", "workers: {min: 0, max: 1}"))
	a := n.call(callerSays, "/v1/pools/p/jobs?task=trace&wait=20s", "{}")
	if a.status != http.StatusOK {
		t.Fatalf("the job: %d %s", a.status, a.body)
	}
	all := n.await(callerTrace, 6)
	request := all["POST /v1/pools/{pool}/jobs"]
	if request.Parent != callerSpan || request.Kind != "server" || request.State != "a=b" {
		t.Errorf("the request is %+v", request)
	}
	id := a.header.Get("Bullpen-Job")
	wantAttributes(t, request, map[string]any{"http.request.method": "POST", "http.response.status_code": int64(200), "bullpen.pool": "p", "bullpen.job.id": id})
	wantBelow(t, all, "POST /v1/pools/{pool}/jobs", "job trace")
	wantBelow(t, all, "job trace", "wait 1", "run trace 1", "outcome")
	wantBelow(t, all, "wait 1", "start worker") // there was none
	run := all["run trace 1"]
	wantAttributes(t, run, map[string]any{
		"bullpen.job.id": id, "bullpen.task": "trace", "bullpen.pool": "p", "bullpen.attempt": int64(1), "bullpen.outcome": "ok", "bullpen.worker": nil,
		"process.pid": nil, "messaging.system": "bullpen", "messaging.message.id": id,
	})
	wantAttributes(t, all["job trace"], map[string]any{"bullpen.job.state": "done", "bullpen.outcome": "ok", "bullpen.job.attempts": int64(1)})
	if want := "00-" + callerTrace + "-" + run.ID + "-01"; a.body != want {
		t.Errorf("the handler received %s, want its run %s", a.body, want)
	}
	if run.Failed || run.Kind != "consumer" || run.Resource["service.name"] != "jobs" || run.Resource["service.version"] != "test" || run.Resource["service.instance.id"] == "" {
		t.Errorf("the run is %+v", run)
	}
	order := []time.Time{all["job trace"].Start, all["start worker"].Start, all["start worker"].End, run.Start, run.End, all["outcome"].Start, all["job trace"].End}
	for i := 1; i < len(order); i++ {
		if order[i].Before(order[i-1].Add(-time.Millisecond)) {
			t.Errorf("time %d of %v is before the one before", i, order)
		}
	}
	if _, headers := n.to.Requests(); headers.Get("X-Scope") != "hidden" {
		t.Errorf("the collector was sent the headers %v", headers)
	}
	if strings.Contains(n.journal.String(), "hidden") {
		t.Error("a header of the collector is in the log")
	}
}

// TestTraceOfTries wants a run for each attempt, and what ended it.
func TestTraceOfTries(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}, retry: {backoff: 1ms..2ms, attempts: 2}"))
	a := n.call("", "/v1/pools/p/jobs?task=flaky&wait=20s", "fail")
	parts := strings.Split(a.body, "-")
	if len(parts) != 4 {
		t.Fatalf("the handler answers %q, want the traceparent that it was given", a.body)
	}
	trace := parts[1]
	all := n.await(trace, 7)
	wantBelow(t, all, "POST /v1/pools/{pool}/jobs", "job flaky")
	wantBelow(t, all, "job flaky", "wait 1", "run flaky 1", "wait 2", "run flaky 2", "outcome")
	if all["POST /v1/pools/{pool}/jobs"].Parent != "" {
		t.Error("the request has a parent, and nobody has called from a trace")
	}
	first, second := all["run flaky 1"], all["run flaky 2"]
	if !first.Failed || !strings.Contains(first.Message, "not yet") || second.Failed || all["job flaky"].Failed || all["wait 2"].Start.Before(first.End.Add(-time.Millisecond)) {
		t.Errorf("the first run is %+v, the second %+v", first, second)
	}
	wantAttributes(t, first, map[string]any{"bullpen.outcome": "failed", "error.type": nil})
	wantAttributes(t, all["job flaky"], map[string]any{"bullpen.job.attempts": int64(2)})

	a = n.call(callerSays, "/v1/pools/p/jobs?task=flaky&wait=20s", "die")
	all = n.await(callerTrace, 7)
	died := all["run flaky 1"]
	if !died.Failed || a.status != http.StatusOK {
		t.Errorf("the run that died is %+v; %d %s", died, a.status, a.body)
	}
	wantAttributes(t, died, map[string]any{"bullpen.outcome": "crashed", "error.type": "crashed"})
	if runtime.GOOS != "windows" {
		wantAttributes(t, died, map[string]any{"bullpen.worker.signal": "killed"})
	}
	if all["run flaky 2"].Attributes["bullpen.worker"] == died.Attributes["bullpen.worker"] {
		t.Error("the second attempt ran in the worker that died")
	}
	if line := "trace_id=" + callerTrace; !strings.Contains(n.journal.String(), line) {
		t.Errorf("no line of the log has %s", line)
	}
}

// TestTraceOfTheDead wants the job to have failed where it has.
func TestTraceOfTheDead(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}"))
	n.call(callerSays, "/v1/pools/p/jobs?task=flaky&wait=20s&attempts=1", "fail")
	all := n.await(callerTrace, 5)
	job := all["job flaky"]
	if !job.Failed || !strings.Contains(job.Message, "not yet") {
		t.Errorf("the dead job is %+v", job)
	}
	wantAttributes(t, job, map[string]any{"bullpen.job.state": "dead", "bullpen.job.reason": "exhausted", "bullpen.outcome": "failed"})
}

// TestTraceOfOneThatWaited cancels a job before it starts.
func TestTraceOfOneThatWaited(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", "  p: {}\n")
	var ref struct{ ID string }
	if err := json.Unmarshal([]byte(n.call(callerSays, "/v1/pools/p/jobs?task=x", "").body), &ref); err != nil {
		t.Fatal(err)
	}
	n.want(http.StatusOK, http.MethodPost, "/v1/jobs/"+ref.ID+"/cancel", "")
	all := n.await(callerTrace, 4)
	wantBelow(t, all, "POST /v1/pools/{pool}/jobs", "job x")
	wantBelow(t, all, "job x", "wait", "outcome")
	wantAttributes(t, all["job x"], map[string]any{"bullpen.job.state": "canceled", "bullpen.outcome": "canceled", "bullpen.job.attempts": int64(0)})
	if all["job x"].Failed || all["wait"].End.Before(all["wait"].Start) {
		t.Errorf("the job is %+v", all["job x"])
	}
}

// TestTraceOfARun follows an ephemeral task, and one that nobody was there for.
func TestTraceOfARun(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}, queue: 1"))
	a := n.call(callerSays, "/v1/pools/p/run?task=trace", "")
	all := n.await(callerTrace, 3)
	wantBelow(t, all, "POST /v1/pools/{pool}/run", "wait", "run trace")
	wantAttributes(t, all["run trace"], map[string]any{"bullpen.run.id": a.header.Get("Bullpen-Task"), "bullpen.outcome": "ok"})
	if want := "00-" + callerTrace + "-" + all["run trace"].ID + "-01"; a.body != want {
		t.Errorf("the handler received %s, want %s", a.body, want)
	}
	other := strings.Replace(callerSays, "4bf9", "4bfa", 1)
	n.call(other, "/v1/pools/p/run?task=nothing", "")
	all = n.await(strings.Split(other, "-")[1], 2)
	wantAttributes(t, all["wait"], map[string]any{"bullpen.outcome": "never_started"})
	if !all["wait"].Failed {
		t.Errorf("the task that never started has %+v", all["wait"])
	}
}

// TestTracesOfABulk wants a trace for each job, unless the caller has one for all.
func TestTracesOfABulk(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}"))
	lines := `{"task":"trace"}` + "\n" + `{"task":"trace"}` + "\n"
	n.call(callerSays, "/v1/pools/p/bulk", lines)
	n.call("", "/v1/pools/p/bulk", lines)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all, err := n.to.Await(ctx, func(all []tracetest.Span) bool { return len(all) >= 2*(1+2*4) })
	if err != nil {
		t.Fatal(err)
	}
	traces := map[string]int{}
	for _, s := range all {
		traces[s.Trace]++
	}
	if traces[callerTrace] != 9 || len(traces) != 4 {
		t.Errorf("the spans by trace are %v, want 9 in that of the caller and 3 others", traces)
	}
	for trace := range traces {
		if tree := tracetest.Tree(all, trace); trace != callerTrace && strings.HasPrefix(tree, "job") && tree != "job trace\n  wait\n  run trace\n  outcome\n" {
			t.Errorf("a job of its own has\n%s", tree)
		}
	}
}

// TestTracesOfManyJobs wants the jobs of a chain and of a batch, also those that are
// added to it, and its callbacks in the trace of the caller, below the requests that
// brought them.
func TestTracesOfManyJobs(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}"))
	for body, want := range map[string]int{
		`/v1/chains {"jobs":[{"pool":"p","task":"trace"},{"task":"trace"},{"task":"trace"}]}`:                                                             3,
		`/v1/batches {"pool":"p","jobs":[{"task":"trace","then":[{"task":"trace"}]},{"task":"trace"}],"then":{"task":"trace"},"failed":{"task":"trace"}}`: 4,
	} {
		path, body, _ := strings.Cut(body, " ")
		if a := n.call(callerSays, path, body); a.status >= 300 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		n.wantJobs(path, "POST "+path, want)
	}
	var open struct{ ID string }
	a := n.call("", "/v1/batches", `{"pool":"p","then":{"task":"trace"}}`)
	if err := json.Unmarshal([]byte(a.body), &open); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	path := "/v1/batches/" + open.ID + "/jobs?pool=p"
	if a := n.call(callerSays, path, `{"task":"trace"}`+"\n"+`{"task":"trace","then":[{"task":"trace"}]}`+"\n"); a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, a.status, a.body)
	}
	n.wantJobs(path, "POST /v1/batches/{id}/jobs", 3)
}

// wantJobs wants so many jobs below a request of the caller's trace.
func (n *traced) wantJobs(what, request string, count int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	below := func(all []tracetest.Span) (jobs int) {
		ids := map[string]bool{}
		for _, s := range all {
			if s.Trace == callerTrace && s.Name == request {
				ids[s.ID] = true
			}
		}
		for _, s := range all {
			if s.Name == "job trace" && ids[s.Parent] {
				jobs++
			}
		}
		return jobs
	}
	if all, err := n.to.Await(ctx, func(all []tracetest.Span) bool { return below(all) >= count }); err != nil || below(all) != count {
		n.t.Errorf("%s: %d jobs are below the request, want %d: %v", what, below(all), count, err)
	}
}

// pythonWorker says in which trace it runs, and where OpenTelemetry is installed
// below which span its own hang.
const pythonWorker = `
import json, bullpen
from bullpen import otel

@bullpen.task
def where(data, task):
    try:
        with otel.span(task):
            from opentelemetry import trace
            c = trace.get_current_span().get_span_context()
            current = f"00-{c.trace_id:032x}-{c.span_id:016x}-01"
    except ImportError:
        current = task.traceparent
    return json.dumps([task.traceparent, current])

bullpen.run()
`

// TestTraceInPython follows a task into a worker of the Python SDK.
func TestTraceInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: ", err)
	}
	sdk, err := filepath.Abs(filepath.Join("..", "..", "sdk", "python"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "worker.py")
	if err := os.WriteFile(file, []byte(pythonWorker), 0o600); err != nil {
		t.Fatal(err)
	}
	n := tracedNode(t, "", fmt.Sprintf("  p: {command: [%q, %q], env: {PYTHONPATH: %q}, ephemeral: true, workers: {min: 1, max: 1}}\n", python, file, sdk))
	a := n.call(callerSays, "/v1/pools/p/run?task=where", "")
	run := n.await(callerTrace, 3)["run where"]
	want := "00-" + callerTrace + "-" + run.ID + "-01"
	if a.body != fmt.Sprintf("[%q, %q]", want, want) {
		t.Errorf("the worker runs in %s, want %s", a.body, want)
	}
}
