package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/job"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("GET", "/v1/overview", "")
	var o OverviewInfo
	if err := json.Unmarshal([]byte(r.body), &o); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	if len(o.Pools) != 1 || o.Pools[0].Name != "main" || o.Pools[0].Rate != 2.5 || o.Pools[0].WaitP50 != 0 || o.Totals.Taken != 2 || o.Totals.Oldest != "1970-01-01T00:00:01Z" {
		t.Errorf("the overview is %s", r.body)
	}
	for range 5 {
		s.do("GET", "/v1/overview", "")
	}
	s.daemon.mu.Lock()
	looks := s.daemon.looks
	s.daemon.mu.Unlock()
	if looks > 2 { // a slow machine may take more than a second for this
		t.Errorf("the pools were looked at %d times for 6 requests at once", looks)
	}
}

func TestOverviewWithoutStore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.daemon.fail(job.ErrStore)
	if r := s.do("GET", "/v1/overview", ""); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, job.ErrStore.Error()) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// changes reads the events of a stream.
type changes struct {
	t    *testing.T
	body *bufio.Scanner
}

// next returns the next event, or comment, as its lines.
func (f *changes) next() []string {
	f.t.Helper()
	var lines []string
	for f.body.Scan() {
		if f.body.Text() == "" && lines != nil {
			return lines
		}
		lines = append(lines, f.body.Text())
	}
	if err := f.body.Err(); err != nil && !errors.Is(err, context.Canceled) {
		f.t.Error(err)
	}
	return lines
}

func (s *site) watch(t *testing.T, path string) *changes {
	t.Helper()
	resp := s.open(t.Context(), "GET", path, http.NoBody)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != eventsType {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, resp.Header)
	}
	return &changes{t, bufio.NewScanner(resp.Body)}
}

func (h *testDaemon) setDepth(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.depth = n
}

func TestOverviewEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.OverviewEvery, c.KeepAlive = 5*time.Millisecond, 50*time.Millisecond })
	f := s.watch(t, "/v1/overview/events")
	first := f.next()
	if len(first) != 2 || first[0] != "event: overview" || !strings.Contains(first[1], `"waiting":0`) {
		t.Fatalf("the first event is %q", first)
	}
	if quiet := f.next(); len(quiet) != 1 || quiet[0] != ": still there" {
		t.Errorf("while nothing changes, the stream says %q", quiet)
	}
	s.daemon.setDepth(3)
	for {
		e := f.next()
		if len(e) == 0 {
			t.Fatal("the stream has ended without the change")
		}
		if len(e) == 2 && strings.Contains(e[1], `"waiting":3`) {
			break
		}
	}
	s.daemon.fail(errTest)
	for {
		e := f.next()
		if len(e) == 0 {
			t.Fatal("the stream has ended with the first fault of the store")
		}
		if strings.Contains(e[0], "cannot be read: "+errTest.Error()) {
			break
		}
	}
	s.daemon.end()
	for {
		e := f.next()
		if len(e) == 0 {
			t.Fatal("the stream has ended without a goodbye")
		}
		if strings.Contains(e[0], "the daemon is stopping") {
			break
		}
	}
	if e := f.next(); len(e) > 0 {
		t.Errorf("behind the goodbye comes %q", e)
	}
}

// Streams take places of those who wait.
func TestOverviewEventsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.MaxWaiting = 1 })
	s.watch(t, "/v1/overview/events").next()
	if r := s.do("GET", "/v1/overview/events", ""); r.status != http.StatusTooManyRequests {
		t.Errorf("a second one: %d %s", r.status, r.body)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("GET", "/v1/history?pool=main&span=20s", "")
	want := `{"step":10,"from":"1970-01-01T00:01:40Z","series":{"waiting":[null,1],"oldest":[null,2],"running":[null,3],"rate":[null,1.235],"errors":[null,0],"wait_p50":[null,0.001235],"wait_p99":[null,1],"run_p50":[null,1],"run_p99":[null,1.2345678e+07]}}`
	if r.status != http.StatusOK || strings.TrimSpace(r.body) != want {
		t.Errorf("%d %s\nwant %s", r.status, r.body, want)
	}
	if r := s.do("GET", "/v1/history?span=99h", ""); !strings.Contains(r.body, `"step":1800,`) {
		t.Errorf("a span of more than is kept: %d %s", r.status, r.body)
	}
	if r := s.do("GET", "/v1/history?pool=nope", ""); r.status != http.StatusNotFound {
		t.Errorf("a pool that is not there: %d %s", r.status, r.body)
	}
	if r := s.do("GET", "/v1/history?pool=UPPER&span=x", ""); r.status != http.StatusBadRequest || !strings.Contains(r.body, "span is") || !strings.Contains(r.body, "pool is") {
		t.Errorf("two faults: %d %s", r.status, r.body)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/v1/workers", "/v1/workers?pool=main"} {
		r := s.do("GET", path, "")
		var w WorkersInfo
		if err := json.Unmarshal([]byte(r.body), &w); err != nil || len(w.Workers) != 2 {
			t.Fatalf("%s: %d %s: %v", path, r.status, r.body, err)
		}
		want := WorkerInfo{Pool: "main", ID: "main-1", PID: 7, State: "busy", Tasks: 3, InHand: 1, Window: 2, Age: 60, Memory: 1 << 20, Task: nobody, TaskName: "echo", TaskAge: 1}
		if w.Workers[0] != want || !w.Workers[1].Recycling {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	if r := s.do("GET", "/v1/workers?pool=far", ""); strings.TrimSpace(r.body) != `{"workers":[]}` {
		t.Errorf("a pool without workers here: %d %s", r.status, r.body)
	}
	if r := s.do("GET", "/v1/workers?pool=nope", ""); r.status != http.StatusNotFound {
		t.Errorf("a pool that is not there: %d %s", r.status, r.body)
	}
}

func TestRecycle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		path   string
		fails  error
		status int
		says   string
	}{
		{"/v1/workers/main-1/recycle?pool=main", nil, http.StatusAccepted, ""},
		{"/v1/workers/main-1/recycle", nil, http.StatusBadRequest, "the query needs the pool"},
		{"/v1/workers/main-1/recycle?pool=A", nil, http.StatusBadRequest, "pool is"},
		{"/v1/workers/main-1/recycle?pool=nope", nil, http.StatusNotFound, "no such pool"},
		{"/v1/workers/main-9/recycle?pool=main", nil, http.StatusNotFound, "no such worker"},
		{"/v1/workers/main-1/recycle?pool=main", errors.ErrUnsupported, http.StatusUnprocessableEntity, "unsupported"},
	} {
		s.daemon.fail(c.fails)
		if r := s.do("POST", c.path, ""); r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s, want %d with %q", c.path, r.status, r.body, c.status, c.says)
		}
	}
	s.daemon.mu.Lock()
	defer s.daemon.mu.Unlock()
	if len(s.daemon.recycled) != 2 {
		t.Errorf("%v were replaced", s.daemon.recycled)
	}
}

func TestMe(t *testing.T) {
	t.Parallel()
	a, _ := newAPI(t)
	w := newRecorder(t, a, access.Submit, "GET", "/v1/me")
	var me Me
	if err := json.Unmarshal(w.Body.Bytes(), &me); err != nil || me != (Me{"submit", "node", "test"}) {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
}

// newRecorder has the answer to a caller of a role.
func newRecorder(t *testing.T, a *API, role access.Role, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(access.WithRole(t.Context(), role), method, path, http.NoBody)
	a.Handler().ServeHTTP(w, r)
	return w
}
