package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// decode reads JSON of an answer.
func decode[T any](t testing.TB, r reply) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return v
}

// isProblem checks that r is a problem of a cause.
func isProblem(t testing.TB, r reply, want problem.Cause) problem.Problem {
	t.Helper()
	if r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("want the problem %s, got %d %s %q", want, r.status, r.header.Get("Content-Type"), r.body)
	}
	p := decode[problem.Problem](t, r)
	if p.Cause != want || r.status != want.Status() || p.Status != r.status || p.Detail == "" {
		t.Fatalf("want the problem %s, got %d %s", want, r.status, r.body)
	}
	return p
}

func TestSubmitAndWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct{ name, path, body, want string }{
		{"a result", "/v1/pools/main/jobs?wait=20s", "hello", "hello"},
		{"bytes", "/v1/pools/main/jobs?wait=20s", "\x00\xff\xfe", "\x00\xff\xfe"},
		{"nothing", "/v1/pools/main/jobs?wait=20s", "", ""},
		{"a short wait", "/v1/pools/main/jobs?wait=4s&task=echo", "x", "x"},
		{"a key", "/v1/pools/main/jobs?wait=20s&key=k", "", ""},
		{"the same key", "/v1/pools/main/jobs?wait=20s&key=k", "", ""},
		{"a large one", "/v1/pools/main/jobs?wait=20s", strings.Repeat("y", 64<<10), strings.Repeat("y", 64<<10)},
	} {
		r := s.do("POST", c.path, c.body)
		if r.status != http.StatusOK || r.body != c.want || r.header.Get("Bullpen-Outcome") != "ok" || r.header.Get("Bullpen-Job") == "" {
			t.Errorf("%s: %d %v %q", c.name, r.status, r.header, r.body)
		}
		for name, want := range map[string]string{"Content-Type": "application/octet-stream", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", c.name, name, got)
			}
		}
		if got := r.header.Get("Bullpen-Attempts"); got != "1" {
			t.Errorf("%s: it took %q attempts", c.name, got)
		}
		if r.header.Get("Bullpen-Ran") == "" || r.header.Get("Bullpen-Waited") == "" {
			t.Errorf("%s: no times in %v", c.name, r.header)
		}
	}
}

func TestSubmitWithoutWaiting(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("POST", "/v1/pools/main/jobs", "hello")
	ref := decode[Ref](t, r)
	if r.status != http.StatusAccepted || r.header.Get("Location") != "/v1/jobs/"+ref.ID || ref.Pool != "main" || ref.State != "queued" {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	got := s.do("GET", "/v1/jobs/"+ref.ID+"/result?wait=20s", "")
	if got.status != http.StatusOK || got.body != "hello" || got.header.Get("Bullpen-Attempts") != "1" {
		t.Fatalf("the result is %d %v %q", got.status, got.header, got.body)
	}
	later := decode[Ref](t, s.do("POST", "/v1/pools/main/jobs?delay=1h", ""))
	if later.State != "scheduled" {
		t.Fatalf("a job of later is %+v", later)
	}
	waited := s.do("POST", "/v1/pools/main/jobs?task=wait&wait=10ms", "")
	if waited.status != http.StatusAccepted || decode[Ref](t, waited).ID == "" {
		t.Fatalf("when the wait is over: %d %s", waited.status, waited.body)
	}
	short := newSite(t, func(c *Config) { c.MaxWait = 10 * time.Millisecond })
	if r := short.do("POST", "/v1/pools/main/jobs?task=wait&wait=1h", ""); r.status != http.StatusAccepted {
		t.Fatalf("a wait that is too long ends with %d %s", r.status, r.body)
	}
	async := s.do("POST", "/v1/pools/main/jobs", "", "Prefer", "respond-async")
	if async.status != http.StatusAccepted {
		t.Fatalf("asynchronously: %d", async.status)
	}
	prefers := s.do("POST", "/v1/pools/main/jobs", "b", "Prefer", "handling=lenient, wait=20, respond-async")
	if prefers.status != http.StatusOK || prefers.body != "b" {
		t.Fatalf("with Prefer: %d %q", prefers.status, prefers.body)
	}
}

func TestSubmitEndsBadly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := isProblem(t, s.do("POST", "/v1/pools/main/jobs?wait=20s&task=fail", ""), problem.EndedBadly)
	if p.Outcome != "failed" || p.Reason != "final" || p.Job == "" || p.Attempts != 1 || p.Failure == nil || p.Failure.Message != "no <such> file" || p.Failure.Retryable {
		t.Errorf("failed: %+v %+v", p, p.Failure)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/jobs?wait=20s&task=again", ""), problem.EndedBadly)
	if p.Outcome != "failed" || p.Reason != "exhausted" || p.Attempts != 2 {
		t.Errorf("exhausted: %+v", p)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/jobs?wait=20s&task=panic&attempts=1", ""), problem.EndedBadly)
	if p.Outcome != "panic" || p.Failure == nil || p.Failure.Stack == "" {
		t.Errorf("panic: %+v", p)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/jobs?wait=20s&task=wait&timeout=20ms&attempts=1", ""), problem.EndedBadly)
	if p.Outcome != "timeout" {
		t.Errorf("timeout: %+v", p)
	}
}

func TestSubmitIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		cause            problem.Cause
		says             []string
	}{
		{"no such pool", "/v1/pools/nope/jobs", "", nil, problem.UnknownPool, []string{"bullpen.yaml"}},
		{"all faults at once", "/v1/pools/main/jobs?taks=x&wait=soon&attempts=0&priority=urgent", "", nil, problem.BadRequest,
			[]string{`no parameter "taks"; did you mean "task"?`}},
		{"all values at once", "/v1/pools/main/jobs?wait=soon&attempts=0&priority=urgent&memory=lots&cpu=-1&idempotent=yes&at=now", "", nil, problem.BadRequest,
			[]string{"wait is", "attempts is", "priority", "memory is", "cpu is", "idempotent is", "at is"}},
		{"twice", "/v1/pools/main/jobs?task=a&task=b", "", nil, problem.BadRequest, []string{"twice"}},
		{"a broken escape", "/v1/pools/main/jobs?task=%zz", "", nil, problem.BadRequest, []string{"escape"}},
		{"a semicolon", "/v1/pools/main/jobs?task=a;key=b", "", nil, problem.BadRequest, []string{"%3B"}},
		{"delay and at", "/v1/pools/main/jobs?delay=1s&at=2030-01-01T00:00:00Z", "", nil, problem.BadRequest, []string{"delay and at"}},
		{"two keys", "/v1/pools/main/jobs?key=a", "", []string{"Idempotency-Key", "b"}, problem.BadRequest, []string{"differ"}},
		{"a time with a plus", "/v1/pools/main/jobs?at=2030-01-01T00:00:00+02:00", "", nil, problem.BadRequest, []string{"%2B"}},
		{"too large", "/v1/pools/main/jobs", strings.Repeat("x", 64<<10+1), nil, problem.TooLarge, []string{"65536", "queue.max_payload"}},
		{"their meta", "/v1/pools/main/jobs", "", []string{"Bullpen-Meta", "bullpen.x=1"}, problem.BadRequest, []string{"bullpen."}},
		{"broken meta", "/v1/pools/main/jobs", "", []string{"Bullpen-Meta", "a=1&b"}, problem.BadRequest, []string{"Bullpen-Meta"}},
		{"much meta", "/v1/pools/main/jobs", "", []string{"Bullpen-Meta", "a=" + strings.Repeat("x", 17<<10)}, problem.BadRequest, []string{"16384"}},
		{"nested too deep", "/v1/pools/main/jobs?wait=1s", "", []string{"Bullpen-Parent", "deep"}, problem.Nested, []string{"raise helpers"}},
		{"a broken parent", "/v1/pools/main/jobs", "", []string{"Bullpen-Parent", "a b"}, problem.BadRequest, []string{"Bullpen-Parent"}},
	} {
		p := isProblem(t, s.do("POST", c.path, c.body, c.headers...), c.cause)
		for _, says := range c.says {
			if !strings.Contains(p.Detail+strings.Join(p.Faults, "\n"), says) {
				t.Errorf("%s: %q is not in %+v", c.name, says, p)
			}
		}
	}
}

func TestSubmitWithAKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := decode[Ref](t, s.do("POST", "/v1/pools/main/jobs?delay=1h", "", "Idempotency-Key", "order 7"))
	two := decode[Ref](t, s.do("POST", "/v1/pools/main/jobs?key=order+7", ""))
	if one.Existing || !two.Existing || one.ID != two.ID {
		t.Fatalf("first %+v, then %+v", one, two)
	}
}

func TestMetaTravels(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("POST", "/v1/pools/main/jobs?task=meta&wait=20s", "{}", "Content-Type", "text/plain", "Traceparent", "00-1", "Tracestate", "a=b",
		"Bullpen-Meta", "user=J%C3%BCrg&raw=%00%FF+x")
	if want := `content-type="text/plain" raw="\x00\xff x" traceparent="00-1" tracestate="a=b" user="Jürg"`; r.body != want {
		t.Errorf("meta is\n%s, want\n%s", r.body, want)
	}
	r = s.do("POST", "/v1/pools/main/run?task=meta", "{}", "Content-Type", "application/x-www-form-urlencoded")
	if r.status != http.StatusOK || r.body != "" {
		t.Errorf("what curl says by itself is meta: %d %q", r.status, r.body)
	}
}

func TestParentWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	done := make(chan reply)
	go func() { // ends with the request; it is waited for below
		done <- s.do("POST", "/v1/pools/main/jobs?task=hold&wait=20s", "", "Bullpen-Parent", "p-1")
	}()
	for s.daemon.waits("p-1") == 0 {
		s.do("GET", "/v1/status", "")
	}
	close(s.daemon.release)
	if r := <-done; r.status != http.StatusOK || r.body != "let go" {
		t.Fatalf("%d %q", r.status, r.body)
	}
	if n := s.daemon.waits("p-1"); n != 0 {
		t.Errorf("%d still wait", n)
	}
	r := s.do("POST", "/v1/pools/main/jobs?delay=1h", "", "Bullpen-Parent", "deep")
	if r.status != http.StatusAccepted {
		t.Errorf("who does not wait is not nested: %d %s", r.status, r.body)
	}
	path := "/v1/jobs/" + decode[Ref](t, r).ID
	isProblem(t, s.do("GET", path+"?wait=1ms", "", "Bullpen-Parent", "deep"), problem.Nested)
	isProblem(t, s.do("GET", path+"/result", "", "Bullpen-Parent", "a b"), problem.BadRequest)
	if r := s.do("GET", path+"?wait=1ms", "", "Bullpen-Parent", "p-1"); r.status != http.StatusOK || s.daemon.waits("p-1") != 0 {
		t.Errorf("waiting for it answers %d %s", r.status, r.body)
	}
}

func TestStopping(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	done := make(chan reply)
	go func() { // ends with the request; it is waited for below
		done <- s.do("POST", "/v1/pools/main/jobs?task=wait&wait=1m", "")
	}()
	for s.daemon.queue.Stats().InHand == 0 {
		s.do("GET", "/v1/status", "")
	}
	s.daemon.end()
	if r := <-done; r.status != http.StatusAccepted {
		t.Errorf("who waits is answered with %d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1/pools/main/jobs", "/v1/pools/main/run", "/v1/pools/main/bulk", "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/retry", "/v1/dead/retry"} {
		r := s.do("POST", path, "")
		isProblem(t, r, problem.Closed)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
}
