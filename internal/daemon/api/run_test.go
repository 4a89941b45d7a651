package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

func TestRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("POST", "/v1/pools/main/run", "hello")
	if r.status != http.StatusOK || r.body != "hello" || r.header.Get("Bullpen-Task") != "made-1" || r.header.Get("Bullpen-Outcome") != "ok" {
		t.Fatalf("%d %v %q", r.status, r.header, r.body)
	}
	r = s.do("POST", "/v1/pools/main/run?id=mine-1&task=fail", "")
	p := isProblem(t, r, problem.EndedBadly)
	if p.Outcome != "failed" || p.Failure == nil || p.Reason != "" || r.header.Get("Bullpen-Task") != "mine-1" {
		t.Errorf("failed: %v %+v", r.header, p)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/run?task=wait&timeout=10ms", ""), problem.EndedBadly)
	if p.Outcome != "timeout" || p.Failure == nil {
		t.Errorf("timeout: %+v", p)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/run?task=wait&deadline="+time.Now().Add(30*time.Millisecond).UTC().Format(time.RFC3339Nano), ""), problem.EndedBadly)
	if p.Outcome != "timeout" {
		t.Errorf("deadline: %+v", p)
	}
	p = isProblem(t, s.do("POST", "/v1/pools/main/run?deadline=2000-01-01T00:00:00Z", ""), problem.EndedBadly)
	if p.Outcome != "timeout" || p.Failure != nil {
		t.Errorf("a deadline that has passed: %+v", p)
	}
}

func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		cause            problem.Cause
		says             string
	}{
		{"a pool that takes none", "/v1/pools/kept/run", "", nil, problem.Forbidden, "ephemeral: true"},
		{"a pool without workers", "/v1/pools/far/run", "", nil, problem.Refused, "command"},
		{"no such pool", "/v1/pools/nope/run", "", nil, problem.UnknownPool, ""},
		{"no such task", "/v1/pools/main/run?task=nope", "", nil, problem.UnknownTask, ""},
		{"a limit that cannot be kept", "/v1/pools/main/run?memory=1MiB", "", nil, problem.Refused, "process pool"},
		{"a key", "/v1/pools/main/run", "", []string{"Idempotency-Key", "x"}, problem.BadRequest, "Idempotency-Key"},
		{"a parameter of jobs", "/v1/pools/main/run?delay=1s", "", nil, problem.BadRequest, "delay"},
		{"a bad id", "/v1/pools/main/run?id=a.b", "", nil, problem.BadRequest, "id is"},
		{"the id of a job", "/v1/pools/main/run?id=" + nobody, "", nil, problem.BadRequest, "form of a job id"},
		{"too large", "/v1/pools/main/run", strings.Repeat("x", 128<<10+1), nil, problem.TooLarge, "http.max_body"},
		{"nested", "/v1/pools/main/run", "", []string{"Bullpen-Parent", "deep"}, problem.Nested, "helpers"},
	} {
		if p := isProblem(t, s.do("POST", c.path, c.body, c.headers...), c.cause); !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %q is not in %q", c.name, c.says, p.Detail)
		}
	}
}

// running waits until an ephemeral task runs.
func (h *testDaemon) running(t testing.TB, id string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond) // the hub tells nobody when a task begins
	defer look.Stop()
	for {
		if _, here := h.hub.Where(id); here {
			return
		}
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatalf("%s never ran", id)
		}
	}
}

func TestCancelRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	done := make(chan reply)
	go func() { // ends with the request; it is waited for below
		done <- s.do("POST", "/v1/pools/main/run?task=wait&id=mine", "")
	}()
	s.daemon.running(t, "mine")
	isProblem(t, s.do("POST", "/v1/pools/main/run?id=mine", ""), problem.BusyID)
	if r := s.do("DELETE", "/v1/run/mine", ""); r.status != http.StatusNoContent || r.body != "" {
		t.Fatalf("canceling answers %d %q", r.status, r.body)
	}
	if p := isProblem(t, <-done, problem.EndedBadly); p.Outcome != "canceled" {
		t.Errorf("the task ended %+v", p)
	}
	isProblem(t, s.do("DELETE", "/v1/run/mine", ""), problem.NotFound)
}

func TestClosingTheConnectionCancels(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"*/*", "text/event-stream"} {
		s := newSite(t)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", s.http.URL+"/v1/pools/main/run?task=wait&id=mine", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		done := make(chan error)
		go func() { // ends with the request; it is waited for below
			resp, err := s.http.Client().Do(r)
			if err == nil {
				resp.Body.Close() // nothing is expected of it
			}
			done <- err
		}()
		s.daemon.running(t, "mine")
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: an answer has come", accept)
		}
		for gone := false; !gone; {
			_, here := s.daemon.hub.Where("mine")
			gone = !here
		}
	}
}

func TestRunStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	resp := s.open(t.Context(), "POST", "/v1/pools/main/run?task=talk", strings.NewReader("me"), "Accept", "text/event-stream")
	defer resp.Body.Close() // it is read
	all := readEvents(t, resp.Body)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Bullpen-Task") == "" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	if id := resp.Header.Get("Bullpen-Task"); !strings.HasPrefix(id, "run-") || checkRunID(id) != nil {
		t.Errorf("the daemon has made the id %q", id)
	}
	text := all.String()
	for _, want := range []string{`progress {"fraction":0.5,"note":"half"}`, `"level":4,"stream":"log","text":"line 2\nof me"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if last := all[len(all)-1]; last.kind != "result" || !strings.Contains(last.data, `{"payload_base64":"c2FpZA==","stats":{"waited":`) {
		t.Errorf("the last is %+v", last)
	}
	resp = s.open(t.Context(), "POST", "/v1/pools/main/run?task=fail", strings.NewReader(""), "Accept", "text/event-stream")
	defer resp.Body.Close() // it is read
	all = readEvents(t, resp.Body)
	if len(all) != 1 || all[0].kind != "problem" || !strings.Contains(all[0].data, `"outcome":"failed"`) {
		t.Errorf("failed: %v", all)
	}
	isProblem(t, s.do("POST", "/v1/pools/main/run?task=nope", "", "Accept", "text/event-stream"), problem.UnknownTask)
}

func TestRunStreamShowsThatItLives(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.KeepAlive = 5 * time.Millisecond })
	resp := s.open(t.Context(), "POST", "/v1/pools/main/run?task=hold&id=x", strings.NewReader(""), "Accept", "text/event-stream")
	defer resp.Body.Close() // it is read
	b := make([]byte, 4096)
	for got := ""; !strings.Contains(got, ": still running\n\n"); {
		n, err := resp.Body.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got += string(b[:n])
	}
	close(s.daemon.release)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
}

// TestRunStreamThatNobodyReads has a client that takes nothing of what a task
// says: it is cut off, and its task canceled.
func TestRunStreamThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.Patience = 100 * time.Millisecond })
	resp := s.open(t.Context(), "POST", "/v1/pools/main/run?task=flood&id=flood", strings.NewReader(""), "Accept", "text/event-stream")
	defer resp.Body.Close() // nothing is expected of it
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for range look.C {
		if _, here := s.daemon.hub.Where("flood"); !here {
			return
		}
	}
}
