package invoke

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/job"
)

// stage is a backend: its functions answer with what is in outcomes.
type stage struct {
	mu   sync.Mutex
	ran  []bullpen.Task // guarded by mu
	jobs []job.Job      // guarded by mu
	full error          // what Enqueue returns; guarded by mu
}

var functionsOfStage = map[string]Function{
	"echo":  {Timeout: 3 * time.Second, Memory: 128 << 20, EventAge: time.Hour},
	"slow":  {Timeout: 3 * time.Second},
	"quiet": {Refuses: "set ephemeral: true"},
}

// outcomes are what functions end with, besides those that return their payload.
var outcomes = map[string]error{
	"fails":    &bullpen.TaskError{Outcome: bullpen.Failed, Type: "ValueError", Message: "no <such> file", Stack: "one\n  two\n", ExitCode: -1},
	"bare":     &bullpen.TaskError{Outcome: bullpen.Failed, Task: "bare", ExitCode: -1},
	"slow":     &bullpen.TaskError{Outcome: bullpen.Timeout, ExitCode: -1},
	"slower":   &bullpen.TaskError{Outcome: bullpen.Timeout, ExitCode: -1},
	"exits":    &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: 3},
	"leaves":   &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: 0},
	"killed":   &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: -1, Signal: "killed"},
	"eats":     &bullpen.TaskError{Outcome: bullpen.Memory, ExitCode: -1, Signal: "killed"},
	"wordy":    &bullpen.TaskError{Outcome: bullpen.Output, Message: "too much", ExitCode: -1},
	"gone":     &bullpen.TaskError{Outcome: bullpen.Lost, ExitCode: 1},
	"lost":     &bullpen.TaskError{Outcome: bullpen.Lost, ExitCode: -1},
	"broken":   fmt.Errorf("%w: no such program", bullpen.ErrStart),
	"nameless": fmt.Errorf("%w: \"x\"", bullpen.ErrUnknownTask),
	"crowded":  bullpen.ErrOverloaded,
	"ends":     bullpen.ErrClosed,
	"refused":  fmt.Errorf("%w: two lines", bullpen.ErrRefused),
	"odd":      errors.New("the moon is full"),
}

func (s *stage) Function(name string) (Function, bool) {
	f, ok := functionsOfStage[name]
	return f, ok || outcomes[name] != nil
}

func (s *stage) Run(_ context.Context, function string, t bullpen.Task) (bullpen.Result, error) {
	s.mu.Lock()
	s.ran = append(s.ran, t)
	s.mu.Unlock()
	r := bullpen.Result{Stats: bullpen.Stats{Ran: 1500 * time.Microsecond, PeakMemory: 30<<20 + 1}}
	if t.Observer != nil {
		t.Observer.Progress(0.5, "half")
		for n := range 200 {
			t.Observer.Log(bullpen.LogLine{Text: fmt.Sprintf("line %03d %s", n, strings.Repeat("x", 90))})
		}
	}
	if err := outcomes[function]; err != nil {
		return r, err
	}
	r.Payload = t.Payload
	return r, nil
}

func (s *stage) Enqueue(_ context.Context, j job.Job) (job.Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return job.Ref{}, s.full
	}
	s.jobs = append(s.jobs, j)
	return job.Ref{ID: "01JOB"}, nil
}

// handlerOf returns the front as a handler.
func handlerOf(f *Front) http.Handler {
	mux := http.NewServeMux()
	for _, r := range f.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	mux.HandleFunc("/", Fallback)
	return mux
}

// call invokes a function by its name in the path.
func call(h http.Handler, name, body string, headers ...string) *httptest.ResponseRecorder {
	return request(h, "/2015-03-31/functions/"+name+"/invocations", body, headers...)
}

func request(h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

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

func TestNames(t *testing.T) {
	t.Parallel()
	s := &stage{}
	fronts := map[string]http.Handler{
		"any": handlerOf(New(Config{Backend: s})),
		"one": handlerOf(New(Config{Backend: s, Account: "123456789012", Region: "eu-west-1"})),
	}
	const there, gone, bad = 200, 404, 400
	for _, c := range []struct {
		front, name string
		status      int
		arn         string
	}{
		{"any", "echo", there, "arn:aws:lambda:us-east-1:000000000000:function:echo"},
		{"any", "echo:$LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo%3A%24LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo", there, "arn:aws:lambda:us-east-1:000000000000:function:echo"},
		{"any", "123456789012:function:echo", there, "arn:aws:lambda:us-east-1:123456789012:function:echo"},
		{"any", "arn:aws-cn:lambda:cn-north-1:123456789012:function:echo", there, "arn:aws-cn:lambda:cn-north-1:123456789012:function:echo"},
		{"any", "arn:aws:lambda:us-gov-east-1:123456789012:function:echo:$LATEST", there, "arn:aws:lambda:us-gov-east-1:123456789012:function:echo:$LATEST"},
		{"one", "echo", there, "arn:aws:lambda:eu-west-1:123456789012:function:echo"},
		{"one", "arn:aws:lambda:eu-west-1:123456789012:function:echo", there, "arn:aws:lambda:eu-west-1:123456789012:function:echo"},
		{"one", "arn:aws:lambda:eu-west-2:123456789012:function:echo", gone, ""},
		{"one", "arn:aws:lambda:eu-west-1:123456789013:function:echo", gone, ""},
		{"any", "none", gone, ""},
		{"any", "Our.Function", gone, ""},
		{"any", "echo:1", gone, ""},
		{"any", "echo:live", gone, ""},
		{"any", "echo?Qualifier=$LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo:$LATEST?Qualifier=%24LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo?Qualifier=live", gone, ""},
		{"any", "echo:$LATEST?Qualifier=live", bad, ""},
		{"any", "ec%20ho", bad, ""},
		{"any", "arn:aws:lambda:function:echo", bad, ""},
		{"any", "a:b:c", bad, ""},
		{"any", strings.Repeat("x", 257), bad, ""},
	} {
		name, query, _ := strings.Cut(c.name, "?")
		w := request(fronts[c.front], "/2015-03-31/functions/"+name+"/invocations?"+query, "1")
		if w.Code != c.status {
			t.Errorf("%s at %s: %d %s, want %d", c.name, c.front, w.Code, w.Body, c.status)
			continue
		}
		switch kind := w.Header().Get("X-Amzn-ErrorType"); {
		case c.status == gone && kind != "ResourceNotFoundException", c.status == bad && kind != "InvalidParameterValueException":
			t.Errorf("%s: %s %s", c.name, kind, w.Body)
		case c.status == there && s.ran[len(s.ran)-1].Meta["lambda.function-arn"] != c.arn:
			t.Errorf("%s: %v, want %s", c.name, s.ran[len(s.ran)-1].Meta, c.arn)
		}
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
	for cause, want := range map[problem.Cause]string{
		problem.Forbidden: denied, problem.Rate: tooMany, problem.TooLarge: tooLarge, problem.NotFound: noSuchCall,
		problem.BadRequest: badContent, problem.Internal: service, problem.Store: service,
	} {
		w := httptest.NewRecorder()
		p := problem.New(cause, "so it is")
		Answer(w, p)
		if w.Code != p.Status || w.Header().Get("X-Amzn-ErrorType") != want || !strings.Contains(w.Body.String(), `"Message":"so it is"`) {
			t.Errorf("%s: %d %v %s", cause, w.Code, w.Header(), w.Body)
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

// FuzzName shows that every valid name has a function, and an ARN that is a name too.
func FuzzName(f *testing.F) {
	for _, s := range []string{"echo", "echo:$LATEST", "123456789012:function:echo:1", "arn:aws:lambda:us-east-1:123456789012:function:echo:live", "us-east-1:echo", "function:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseName(s)
		if !ok {
			return
		}
		again, ok := parseName(n.arn("", ""))
		if !ok && len(n.arn("", "")) <= longestName || n.function == "" || ok && (again.function != n.function || again.qualifier != n.qualifier) {
			t.Errorf("%q is %+v, and its ARN %+v", s, n, again)
		}
	})
}
