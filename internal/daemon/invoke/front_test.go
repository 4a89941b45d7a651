package invoke

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/job"
)

const uuids = 36

func TestRequestResponse(t *testing.T) {
	t.Parallel()
	s := &stage{}
	h := handlerOf(New(Config{Backend: s}))
	w := call(h, "echo", `{"a": 1}`, "X-Amz-Client-Context", base64.StdEncoding.EncodeToString([]byte(`{"custom":{"a":"ü"}}`)), "X-Amzn-Trace-Id", "Root=1-2-3", "Traceparent", "00-x-y-01")
	if w.Code != 200 || w.Body.String() != `{"a": 1}` || w.Header().Get("X-Amz-Executed-Version") != "$LATEST" || w.Header().Get("X-Amz-Function-Error") != "" || w.Header().Get("X-Amz-Log-Result") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	id := w.Header().Get("X-Amzn-RequestId")
	want := map[string]string{
		"lambda.request-id": id, "lambda.function-arn": "arn:aws:lambda:us-east-1:000000000000:function:echo", "content-type": "application/json",
		"lambda.client-context": `{"custom":{"a":"ü"}}`, "lambda.trace-id": "Root=1-2-3", "traceparent": "00-x-y-01",
	}
	if ran := s.ran[0]; len(id) != uuids || ran.ID != id || !maps.Equal(ran.Meta, want) {
		t.Errorf("%q: %+v", id, ran)
	}
	if w := call(h, "echo", "\n{\n\t\"a\": \"b c\"\n}\n"); w.Code != 200 || w.Body.String() != `{"a":"b c"}` {
		t.Errorf("many lines: %d %s", w.Code, w.Body)
	}
	if w := call(h, "echo", " "); w.Code != 200 || w.Body.String() != "{}" {
		t.Errorf("without a payload: %d %s", w.Code, w.Body)
	}
	if w := call(h, "echo", "1", "X-Amz-Invocation-Type", "DryRun"); w.Code != 204 || w.Body.Len() > 0 || len(s.ran) != 3 {
		t.Errorf("dry run: %d %s", w.Code, w.Body)
	}
}

// TestNested shows that a task that invokes a function is known to wait for it.
func TestNested(t *testing.T) {
	t.Parallel()
	s := &stage{}
	h := handlerOf(New(Config{Backend: s}))
	if w := call(h, "echo", "1", "Bullpen-Parent", "task-1"); w.Code != 200 || s.held != 1 || s.wait != 0 {
		t.Errorf("%d, %d waited and %d wait", w.Code, s.held, s.wait)
	}
	w := call(h, "echo", "1", "Bullpen-Parent", "deep")
	if w.Code != 400 || w.Header().Get("X-Amzn-ErrorType") != "RecursiveInvocationException" || !strings.Contains(w.Body.String(), "helpers") || len(s.ran) != 1 {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestFunctionFails shows that all errors of a function are answers with status 200.
func TestFunctionFails(t *testing.T) {
	t.Parallel()
	h := handlerOf(New(Config{Backend: &stage{}}))
	for name, want := range map[string]failure{
		"fails":    {Type: "ValueError", Message: "no <such> file", Stack: []string{"one", "  two"}},
		"bare":     {Type: "Error", Message: `task "bare" failed`},
		"slow":     {Type: "Sandbox.Timedout", Message: "RequestId: ID Error: Task timed out after 3.00 seconds"},
		"slower":   {Type: "Sandbox.Timedout", Message: "RequestId: ID Error: Task timed out after 0.00 seconds"},
		"exits":    {Type: "Runtime.ExitError", Message: "RequestId: ID Error: Runtime exited with error: exit status 3"},
		"leaves":   {Type: "Runtime.ExitError", Message: "RequestId: ID Error: Runtime exited without providing a reason"},
		"killed":   {Type: "Runtime.ExitError", Message: "RequestId: ID Error: Runtime exited with error: signal: killed"},
		"eats":     {Type: "Runtime.OutOfMemory", Message: "RequestId: ID Error: Runtime exited with error: signal: killed"},
		"wordy":    {Type: "Function.ResponseSizeTooLarge", Message: "task output: too much"},
		"gone":     {Type: "Runtime.ExitError", Message: "RequestId: ID Error: Runtime exited with error: exit status 1"},
		"lost":     {Type: "Bullpen.lost", Message: "task lost"},
		"broken":   {Type: "Runtime.ExitError", Message: "RequestId: ID Error: worker did not start: no such program"},
		"nameless": {Type: "Runtime.HandlerNotFound", Message: `RequestId: ID Error: unknown task: "x"`},
	} {
		w := call(h, name, "1")
		var got failure
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want.ID = w.Header().Get("X-Amzn-RequestId")
		want.Message = strings.ReplaceAll(want.Message, " ID ", " "+want.ID+" ")
		if want.Stack == nil {
			want.Stack = []string{}
		}
		if d := cmp.Diff(want, got); w.Code != 200 || w.Header().Get("X-Amz-Function-Error") != "Unhandled" || w.Header().Get("X-Amz-Executed-Version") != "$LATEST" || d != "" {
			t.Errorf("%s: %d %v\n%s", name, w.Code, w.Header(), d)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := &stage{}
	h := handlerOf(New(Config{Backend: s, MaxEvent: 100}))
	kind := func(k string) []string { return []string{"X-Amz-Invocation-Type", k} }
	long := `"` + strings.Repeat("x", mostPayload) + `"`
	for name, c := range map[string]struct {
		function, body string
		headers        []string
		status         int
		kind, says     string
	}{
		"overloaded":        {"crowded", "1", nil, 429, tooMany, "overloaded"},
		"closed":            {"ends", "1", nil, 503, service, "closed"},
		"refused":           {"refused", "1", nil, 400, badContent, "two lines"},
		"internal":          {"odd", "1", nil, 500, service, "moon"},
		"events only":       {"quiet", "1", nil, 400, badValue, "ephemeral: true"},
		"lines not JSON":    {"echo", "{\n", nil, 400, badContent, "JSON"},
		"not JSON":          {"echo", "{", nil, 400, badContent, "JSON"},
		"too large":         {"echo", long, nil, 413, tooLarge, "6291456 bytes"},
		"event too large":   {"echo", long[:100] + `""`, kind("Event"), 413, tooLarge, "100 bytes"},
		"unknown type":      {"echo", "1", kind("Later"), 400, badValue, "RequestResponse"},
		"unknown log type":  {"echo", "1", []string{"X-Amz-Log-Type", "All"}, 400, badValue, "Tail"},
		"context not JSON":  {"echo", "1", []string{"X-Amz-Client-Context", "e30x"}, 400, badContent, "Client context"},
		"context not coded": {"echo", "1", []string{"X-Amz-Client-Context", "{}"}, 400, badContent, "Client context"},
		"context too long":  {"echo", "1", []string{"X-Amz-Client-Context", base64.StdEncoding.EncodeToString([]byte(long[:3000] + `"`))}, 400, badContent, "3583"},
	} {
		w := call(h, c.function, c.body, c.headers...)
		var body struct{ Type, Reason, Message string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if w.Code != c.status || w.Header().Get("X-Amzn-ErrorType") != c.kind || !strings.Contains(body.Message, c.says) || len(w.Header().Get("X-Amzn-RequestId")) != uuids {
			t.Errorf("%s: %d %v %s, want %d %s with %q", name, w.Code, w.Header(), w.Body, c.status, c.kind, c.says)
		}
		if retry := w.Header().Get("Retry-After") != ""; retry != (c.status == 429 || c.status == 503) || (body.Reason != "") != (c.status == 429) || (body.Type == "User") != (c.status < 500) {
			t.Errorf("%s: %v %s", name, w.Header(), w.Body)
		}
	}
	if w := request(h, "/2015-03-31/functions/echo", ""); w.Code != 404 || w.Header().Get("X-Amzn-ErrorType") != noSuchCall {
		t.Errorf("another call: %d %v", w.Code, w.Header())
	}
}

// TestAnswer shows the form of what the guard refuses.
func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause problem.Cause
		kind  string
	}{
		{problem.Forbidden, denied}, {problem.Rate, tooMany}, {problem.TooLarge, tooLarge}, {problem.NotFound, noSuchCall},
		{problem.BadRequest, badContent}, {problem.Internal, service}, {problem.Store, service},
	} {
		w := httptest.NewRecorder()
		p := problem.New(c.cause, "so it is")
		Answer(w, p)
		if w.Code != p.Status || w.Header().Get("X-Amzn-ErrorType") != c.kind || !strings.Contains(w.Body.String(), `"Message":"so it is"`) {
			t.Errorf("%s: %d %v %s", c.cause, w.Code, w.Header(), w.Body)
		}
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	s := &stage{}
	h := handlerOf(New(Config{Backend: s}))
	before := time.Now()
	w := call(h, "echo", `{"a":1}`, "X-Amz-Invocation-Type", "Event", "Amz-Sdk-Invocation-Id", "try-1", "X-Amz-Client-Context", "e30=")
	if w.Code != 202 || w.Body.Len() > 0 || w.Header().Get("Bullpen-Job") != "01JOB" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	j := s.jobs[0]
	if j.Queue != "echo" || string(j.Payload) != `{"a":1}` || j.Key != "lambda:try-1" || j.Meta["lambda.request-id"] != w.Header().Get("X-Amzn-RequestId") || j.Meta["lambda.client-context"] != "" {
		t.Errorf("%+v", j)
	}
	if age := j.Deadline.Sub(before); age < time.Hour || age > time.Hour+time.Minute {
		t.Errorf("the deadline is after %v", age)
	}
	if w := call(h, "quiet", "1", "X-Amz-Invocation-Type", "Event", "Amz-Sdk-Invocation-Id", strings.Repeat("x", 65)); w.Code != 202 || s.jobs[1].Key != "" || !s.jobs[1].Deadline.IsZero() {
		t.Errorf("%d %+v", w.Code, s.jobs[1])
	}
	for _, c := range []struct {
		err    error
		status int
	}{{job.ErrFull, 429}, {job.ErrClosed, 503}, {job.ErrStore, 503}, {job.ErrUnconfirmed, 500}} {
		s.full = c.err
		if w := call(h, "echo", "1", "X-Amz-Invocation-Type", "Event"); w.Code != c.status {
			t.Errorf("%v: %d", c.err, w.Code)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	h := handlerOf(New(Config{Backend: &stage{}}))
	w := call(h, "echo", "1", "X-Amz-Log-Type", "Tail")
	text, err := base64.StdEncoding.DecodeString(w.Header().Get("X-Amz-Log-Result"))
	if err != nil {
		t.Fatal(err)
	}
	end := "\nREPORT RequestId: " + w.Header().Get("X-Amzn-RequestId") + "\tDuration: 1.50 ms\tBilled Duration: 2 ms\tMemory Size: 128 MB\tMax Memory Used: 31 MB\t\n"
	lines := strings.Split(string(text), "\n")
	if len(text) != tailBytes || !strings.HasSuffix(string(text), end) || !strings.HasPrefix(lines[len(lines)-4], "line 199") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	w = call(h, "fails", "1", "X-Amz-Log-Type", "Tail")
	if w.Header().Get("X-Amz-Log-Result") == "" {
		t.Error("a function that fails has no log")
	}
}

// TestSigned shows that the front asks for signatures if it has keys.
func TestSigned(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("AKIDEXAMPLE secret-of-the-example"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := sigv4.New(path)
	if err := keys.Load(); err != nil {
		t.Fatal(err)
	}
	s := &stage{}
	h := handlerOf(New(Config{Backend: s, Keys: keys, Region: "eu-west-1"}))
	if w := call(h, "echo", "1"); w.Code != 403 || w.Header().Get("X-Amzn-ErrorType") != "MissingAuthenticationTokenException" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	now := time.Now().UTC()
	signed := func(region string) string {
		return "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" + now.Format("20060102") + "/" + region + "/lambda/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)
	}
	for _, headers := range [][]string{
		{"Authorization", signed("eu-west-1")}, {"Authorization", signed("eu-west-2")}, {"Authorization", signed("eu-west-1"), "X-Amz-Invocation-Type", "Event"},
	} {
		w := call(h, "echo", "1", append(headers, "X-Amz-Date", now.Format("20060102T150405Z"))...)
		if w.Code != 403 || w.Header().Get("X-Amzn-ErrorType") != "InvalidSignatureException" {
			t.Errorf("%v: %d %v %s", headers, w.Code, w.Header(), w.Body)
		}
	}
	if len(s.ran)+len(s.jobs) > 0 {
		t.Errorf("%v %v", s.ran, s.jobs)
	}
}
