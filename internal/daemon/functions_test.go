package daemon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// function is a pool of this test binary whose tasks are those of the handler lambda.
func function(t testing.TB, name, more string) string {
	t.Helper()
	return fmt.Sprintf("  %s: {command: [%q], task: lambda, grace: 100ms, nice: host, %s}\n", name, self(t), more)
}

// lambdaNode runs a daemon with a Lambda front; more are further settings of the front.
func lambdaNode(t *testing.T, more string, pools ...string) *node {
	t.Helper()
	n := openText(t, base+"lambda: {listen: '127.0.0.1:0'"+more+"}\npools:\n"+strings.Join(pools, ""))
	n.begin()
	n.awaitReady()
	return n
}

// invoke invokes a function.
func (n *node) invoke(name, payload string, headers ...string) answer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "http://"+n.LambdaAddr().String()+"/2015-03-31/functions/"+name+"/invocations", strings.NewReader(payload))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Host = r.Header.Get("Host")
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

// TestInvoke runs functions on worker processes.
func TestInvoke(t *testing.T) {
	t.Parallel()
	n := lambdaNode(t, ", region: eu-west-1", function(t, "f", "ephemeral: true"), function(t, "brief", "ephemeral: true, limits: {timeout: 50ms}"), function(t, "quiet", ""), "  far: {task: lambda}\n")
	a := n.invoke("f", `{"a":1}`)
	var out struct {
		Event json.RawMessage
		Meta  map[string]string
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatalf("%d %v %s: %v", a.status, a.header, a.body, err)
	}
	id := a.header.Get("X-Amzn-RequestId")
	if a.status != http.StatusOK || string(out.Event) != `{"a":1}` || out.Meta["lambda.request-id"] != id || out.Meta["lambda.function-arn"] != "arn:aws:lambda:eu-west-1:000000000000:function:f" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	for _, c := range []struct{ name, payload, says string }{
		{"f", `{"do":"fail"}`, `"errorMessage":"no such file"`},
		{"f", `{"do":"panic"}`, "at the disco"},
		{"f", `{"do":"exit"}`, `Error: Runtime exited with error: exit status 3","errorType":"Runtime.ExitError"`},
		{"brief", `{"do":"sleep"}`, `Error: Task timed out after 0.05 seconds","errorType":"Sandbox.Timedout"`},
	} {
		if a := n.invoke(c.name, c.payload); a.status != http.StatusOK || a.header.Get("X-Amz-Function-Error") != "Unhandled" || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d %v %s", c.payload, a.status, a.header, a.body)
		}
	}
	a = n.invoke("f", `{"do":"log"}`, "X-Amz-Log-Type", "Tail")
	if log, err := base64.StdEncoding.DecodeString(a.header.Get("X-Amz-Log-Result")); err != nil || !strings.Contains(string(log), "it is logged\nEND RequestId: ") {
		t.Errorf("%v %s: %v", a.header, log, err)
	}
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		kind    string
	}{
		{"none", nil, http.StatusNotFound, "ResourceNotFoundException"},
		{"quiet", nil, http.StatusBadRequest, "InvalidParameterValueException"},
		{"far", nil, http.StatusBadRequest, "InvalidParameterValueException"},
		{"quiet", []string{"X-Amz-Invocation-Type", "DryRun"}, http.StatusNoContent, ""},
		{"far", []string{"X-Amz-Invocation-Type", "Event"}, http.StatusAccepted, ""},
		{"f", []string{"Host", "evil.example.com"}, http.StatusForbidden, "AccessDeniedException"},
		{"f", []string{"Origin", "https://evil.example.com"}, http.StatusForbidden, "AccessDeniedException"},
	} {
		if a := n.invoke(c.name, `{}`, c.headers...); a.status != c.status || a.header.Get("X-Amzn-ErrorType") != c.kind {
			t.Errorf("%s %v: %d %v %s", c.name, c.headers, a.status, a.header, a.body)
		}
	}
	const metric = `bullpen_http_requests_total{code="2xx",route="POST /2015-03-31/functions/{function}/invocations"}`
	if a := n.want(http.StatusOK, http.MethodGet, "/metrics", ""); !strings.Contains(a.body, metric) {
		t.Errorf("%s is not among the metrics", metric)
	}
}

// TestInvokeEvent follows events through retries to their burial.
func TestInvokeEvent(t *testing.T) {
	t.Parallel()
	const retry = "retry: {attempts: 2, backoff: 1ms..2ms, bury: echo}"
	n := lambdaNode(t, "", function(t, "f", retry), function(t, "late", retry+", lambda: {event_age: 100ms}"))
	send := func(name, payload string, headers ...string) string {
		a := n.invoke(name, payload, append(headers, "X-Amz-Invocation-Type", "Event")...)
		if a.status != http.StatusAccepted || a.body != "" || a.header.Get("X-Amzn-RequestId") == "" {
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
		return a.header.Get("Bullpen-Job")
	}
	type job struct {
		State, Outcome, Reason string
		Attempts               int
	}
	end := func(id string) (j job) {
		a := n.ask(http.MethodGet, "/v1/jobs/"+id+"?wait=1m", "")
		if err := json.Unmarshal([]byte(a.body), &j); err != nil {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		return j
	}
	first := send("f", `{"a":1}`, "Amz-Sdk-Invocation-Id", "one")
	if again := send("f", `{"a":1}`, "Amz-Sdk-Invocation-Id", "one"); again != first {
		t.Errorf("another try is the job %s, the first was %s", again, first)
	}
	if j := end(first); j.State != "done" || j.Attempts != 1 {
		t.Errorf("%+v", j)
	}
	if j := end(send("f", `{"do":"fail"}`)); j.State != "dead" || j.Outcome != "failed" || j.Attempts != 2 {
		t.Errorf("an event that fails: %+v", j)
	}
	if j := end(send("late", `{"do":"sleep"}`)); j.State != "dead" || j.Outcome != "timeout" {
		t.Errorf("an event that is too old: %+v", j)
	}
	for _, pool := range []string{"f", "late"} {
		eventually(t, "the dead job is buried", func() bool {
			var list struct{ Jobs []json.RawMessage }
			a := n.want(http.StatusOK, http.MethodGet, "/v1/jobs?state=done&task=echo&pool="+pool, "")
			if err := json.Unmarshal([]byte(a.body), &list); err != nil {
				t.Fatalf("%s: %v", a.body, err)
			}
			return len(list.Jobs) == 1
		})
	}
}

// TestInvokeTraced shows invocations in the traces of their callers.
func TestInvokeTraced(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "sample: 1", function(t, "f", "ephemeral: true"), "lambda: {listen: '127.0.0.1:0'}\n")
	const route = "POST /2015-03-31/functions/{function}/invocations"
	a := n.invoke("f", "{}", "Traceparent", callerSays)
	all := n.await(callerTrace, 3)
	wantBelow(t, all, route, "wait", "run lambda")
	if s := all[route]; s.Parent != callerSpan || s.Attributes["bullpen.pool"] != "f" || s.Attributes["bullpen.run.id"] != a.header.Get("X-Amzn-RequestId") {
		t.Errorf("%+v", s)
	}
}

// TestInvokeAtEnd shows that an invocation that runs is answered when the daemon stops,
// and that no other one starts.
func TestInvokeAtEnd(t *testing.T) {
	t.Parallel()
	n := lambdaNode(t, "", function(t, "f", "ephemeral: true"))
	file := filepath.Join(t.TempDir(), "file")
	payload, err := json.Marshal(map[string]string{"do": "hold", "file": file})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan answer, 1)
	go func() { ran <- n.invoke("f", string(payload)) }() // ends with the task; awaited below
	eventually(t, "the function runs", func() bool { return exists(file + ".begun") })
	n.Stop()
	if a := n.invoke("f", "{}"); a.status != http.StatusServiceUnavailable || a.header.Get("X-Amzn-ErrorType") != "ServiceException" {
		t.Errorf("while it stops: %d %v %s", a.status, a.header, a.body)
	}
	touch(t, file)
	if a := <-ran; a.status != http.StatusOK || a.body != "held" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
