package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// idsOf gives those of all jobs of a list, page by page.
func (s *site) idsOf(path string) []string {
	s.t.Helper()
	var ids []string
	for next := ""; ; {
		page := decode[listPage](s.t, s.do("GET", path+next, ""))
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if page.Next == "" {
			return ids
		}
		if next = "&after=" + page.Next; len(ids) > 1000 {
			s.t.Fatalf("%s does not end", path)
		}
	}
}

func TestListsFindJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var waits []string
	for i := range 5 {
		waits = append(waits, s.submit(fmt.Sprintf("delay=%dh&key=Order-%d", i+1, i), "12345"))
	}
	done := s.submit("key=order-done", "x")
	s.ended(done)
	dead := s.dead("")
	queued := decode[Ref](t, s.do("POST", "/v1/pools/far/jobs", "")).ID
	back := slices.Clone(waits)
	slices.Reverse(back)
	soon := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	for path, want := range map[string][]string{
		"/v1/jobs?state=scheduled&order=newest":         back,
		"/v1/jobs?state=scheduled&order=newest&limit=2": back,
		"/v1/jobs?state=scheduled&order=oldest&limit=2": waits,
		"/v1/jobs?order=newest&limit=3":                 slices.Concat([]string{queued, dead, done}, back),
		"/v1/jobs?search=order":                         append(slices.Clone(waits), done),
		"/v1/jobs?search=ORDER-3":                       {waits[3]},
		"/v1/jobs?search=such%20%3Cfile":                nil,
		"/v1/jobs?search=%3Csuch%3E":                    {dead},
		"/v1/jobs?search=" + strings.ToLower(queued):    {queued},
		"/v1/dead?search=%3Csuch%3E&order=newest":       {dead},
		"/v1/dead?since=" + soon:                        nil,
		"/v1/dead?before=" + soon:                       {dead},
	} {
		if got := s.idsOf(path); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, want %v", path, got, want)
		}
	}
	first := decode[listPage](t, s.do("GET", "/v1/jobs?state=scheduled&limit=1", "")).Jobs
	if len(first) != 1 {
		t.Fatalf("the first of the jobs that are scheduled are %+v, want one", first)
	}
	if j := first[0]; j.PayloadLen != 5 {
		t.Errorf("a job of a list is %+v, want the size of its payload", j)
	}
	for path, says := range map[string]string{
		"/v1/jobs?order=best": "newest or oldest", "/v1/jobs?search=": "empty", "/v1/jobs?since=soon": "time", "/v1/dead?cause=12": "hexadecimal",
		"/v1/jobs?since=2030-01-01T00:00:00Z&before=2029-01-01T00:00:00Z": "exchange", "/v1/dead/causes?limit=3": "limit", "/v1/jobs?reason=finale": "use one of",
		"/v1/jobs?search=" + strings.Repeat("x", 257): "256",
	} {
		if p := isProblem(t, s.do("GET", path, ""), problem.BadRequest); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %q is not in %q", path, says, p.Detail)
		}
	}
}

func TestDeadCauses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var ids []string
	for range 3 {
		ids = append(ids, s.dead(""))
	}
	panics := s.submit("task=panic&attempts=1", "")
	s.ended(panics)
	all := decode[Causes](t, s.do("GET", "/v1/dead/causes", ""))
	if len(all.Causes) != 2 || all.Jobs != 4 || all.More {
		t.Fatalf("the causes are %+v, want 2 of 4 jobs", all)
	}
	c := all.Causes[0]
	if c.Count != 3 || c.Pool != "main" || c.Task != "fail" || c.Reason != "final" || c.Outcome != "failed" || c.Error != "no <such> file" ||
		c.Sample != ids[2] || c.First == "" || c.Last < c.First {
		t.Errorf("the first cause is %+v", c)
	}
	if got := s.idsOf("/v1/dead?cause=" + c.Cause); !slices.Equal(got, ids) {
		t.Errorf("the jobs of a cause are %v, want %v", got, ids)
	}
	if some := decode[Causes](t, s.do("GET", "/v1/dead/causes?task=panic&outcome=panic", "")); len(some.Causes) != 1 || some.Causes[0].Sample != panics {
		t.Errorf("the causes of panics are %+v", some)
	}
	if m := decode[Many](t, s.do("POST", "/v1/dead/remove", `{"cause":"`+c.Cause+`","order":"newest","limit":1}`)); m.Count != 1 || !m.More || m.Next == "" {
		t.Errorf("removing one of a cause answers %+v", m)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/retry", `{"cause":"`+c.Cause+`"}`)); m.Count != 2 || m.More {
		t.Errorf("trying a cause again answers %+v", m)
	}
	if r := s.do("POST", "/v1/dead/causes", ""); r.status != http.StatusMethodNotAllowed {
		t.Errorf("POST to the causes answers %d", r.status)
	}
	isProblem(t, s.do("DELETE", "/v1/dead/causes", ""), problem.Method)
	isProblem(t, s.do("DELETE", "/v1/dead/causes?pool=main", ""), problem.Method)
	isProblem(t, s.do("DELETE", "/v1/run/cancel", ""), problem.NotFound) // an ephemeral task may be called so
	isProblem(t, s.do("GET", "/v1/jobs/cancel", ""), problem.Method)
}

func TestCancelMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 30
	var ids []string
	for i := range n {
		ids = append(ids, s.submit(fmt.Sprintf("delay=1h&task=t%d", i%2), ""))
	}
	far := decode[Ref](t, s.do("POST", "/v1/pools/far/jobs", "")).ID
	done := s.submit("", "x")
	s.ended(done)
	m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"ids":["`+ids[0]+`","`+done+`","`+nobody+`","x"]}`))
	if m.Count != 1 || len(m.Failed) != 3 || m.Failed[0].ID != done || !strings.Contains(m.Failed[0].Error, "ended") {
		t.Errorf("canceling by ids answers %+v, want one, and why not the others", m)
	}
	m = decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"task":"t1","limit":3,"order":"newest"}`))
	if m.Count != 3 || !m.More || len(m.Failed) > 0 {
		t.Errorf("canceling three answers %+v", m)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"task":"t1","limit":2,"order":"newest","after":"`+m.Next+`"}`)); m.Count != 2 || !m.More || len(m.Failed) > 0 {
		t.Errorf("canceling two more answers %+v", m)
	}
	if got := s.idsOf("/v1/jobs?state=scheduled&task=t1"); !slices.Equal(got, []string{ids[1], ids[3], ids[5], ids[7], ids[9], ids[11], ids[13], ids[15], ids[17], ids[19]}) {
		t.Errorf("what is left is %v, want all but the last five", got)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"pool":"main","state":"queued,running"}`)); m.Count != 0 || m.More {
		t.Errorf("canceling what is queued answers %+v", m)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"pool":"main"}`)); m.Count != n-6 || m.More || len(m.Failed) > 0 {
		t.Errorf("canceling a pool answers %+v, want %d", m, n-6)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"all":true}`)); m.Count != 1 || m.More {
		t.Errorf("canceling all answers %+v, want one", m)
	}
	if j := decode[Job](t, s.do("GET", "/v1/jobs/"+far, "")); j.State != "canceled" {
		t.Errorf("the last one is %s", j.State)
	}
}

// TestManyOfTheFirstCall has several calls of one action: what came after the first is
// not meant.
func TestManyOfTheFirstCall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.submit("delay=1h&task=many", "")
	}
	m := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"task":"many","limit":2}`))
	late := s.submit("delay=1h&task=many", "")
	if m.Count != 2 || !m.More {
		t.Fatalf("canceling two of three answers %+v", m)
	}
	next := decode[Many](t, s.do("POST", "/v1/jobs/cancel", `{"task":"many","after":"`+m.Next+`"}`))
	if j := decode[Job](t, s.do("GET", "/v1/jobs/"+late, "")); next.Count != 1 || next.More || j.State != "scheduled" {
		t.Errorf("the second call answers %+v, and what came after the first is %s", next, j.State)
	}
	for range 3 {
		s.dead("")
	}
	m = decode[Many](t, s.do("POST", "/v1/dead/retry", `{"all":true,"limit":2}`))
	if m.Count != 2 || !m.More {
		t.Fatalf("trying two of three again answers %+v", m)
	}
	s.daemon.waitDead(t, 3) // these two have died again
	next = decode[Many](t, s.do("POST", "/v1/jobs/retry", `{"all":true,"after":"`+m.Next+`"}`))
	if next.Count != 1 || next.More {
		t.Errorf("the second call answers %+v, want the one that was dead when the first began", next)
	}
	since := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, path := range []string{"/v1/jobs/cancel", "/v1/jobs/retry"} {
		if m := decode[Many](t, s.do("POST", path, `{"since":"`+since+`"}`)); m.Count != 0 || m.More {
			t.Errorf("%s of what is yet to come answers %+v", path, m)
		}
		for _, after := range []string{m.Next + "x", m.Next + ".1", "1.2.-3", "1.2.", "1.2.99999999999999999999"} {
			if p := isProblem(t, s.do("POST", path, `{"all":true,"after":"`+after+`"}`), problem.BadRequest); !strings.Contains(p.Detail, "give back") {
				t.Errorf("%s: after %q gives %q", path, after, p.Detail)
			}
		}
	}
}

func TestRetryMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.dead("a"), s.dead("b")
	waits := s.submit("delay=1h", "x")
	m := decode[Many](t, s.do("POST", "/v1/jobs/retry", `{"ids":["`+one+`","`+waits+`"]}`))
	if m.Count != 1 || len(m.Failed) != 1 || m.Failed[0].ID != waits {
		t.Errorf("trying again by ids answers %+v", m)
	}
	s.daemon.waitDead(t, 2) // the other, and the new one
	if m := decode[Many](t, s.do("POST", "/v1/jobs/retry", `{"pool":"main","state":"dead","before":"2999-01-01T00:00:00Z"}`)); m.Count != 2 || m.More {
		t.Errorf("trying a pool again answers %+v, want 2: %s and another", m, two)
	}
	for body, says := range map[string]string{
		`{}`: "which dead jobs", `{"state":"dead,queued"}`: "only dead", `{"ids":[]}`: "1 to 1000", `{"ids":["a"],"pool":"main"}`: "ids and",
		`{"ids":["a"],"limit":5}`: "ids alone", `{"ids":["a"],"order":"newest"}`: "ids alone", `{"ids":"a"}`: "list",
		`{"ids":[7]}`: "ids", `{"cause":"x"}`: "hexadecimal", `{"search":""}`: "empty", `{"after":"x","all":true}`: "after", `{"order":"newest"}`: "which dead jobs",
		`{"since":"2030-01-01T00:00:00Z","before":"2030-01-01T00:00:00Z"}`: "exchange", `{"searches":"x"}`: `did you mean "search"`,
	} {
		if p := isProblem(t, s.do("POST", "/v1/jobs/retry", body), problem.BadRequest); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %q is not in %q", body, says, p.Detail)
		}
	}
	for body, says := range map[string]string{`{"state":"queued,done"}`: "not ended", `{"reason":"final"}`: "reason", `{"limit":3}`: "which jobs", `{"all":false}`: "which jobs"} {
		if p := isProblem(t, s.do("POST", "/v1/jobs/cancel", body), problem.BadRequest); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %q is not in %q", body, says, p.Detail)
		}
	}
}

// TestRetryByRole has what a filter selects for administrators only.
func TestRetryByRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.dead("a")
	for _, c := range []struct {
		role   access.Role
		body   string
		status int
	}{
		{access.Submit, `{"all":true}`, http.StatusForbidden}, {access.Submit, `{"pool":"main"}`, http.StatusForbidden},
		{access.Submit, `{"ids":["` + id + `"]}`, http.StatusOK}, {access.Admin, `{"all":true}`, http.StatusOK},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(access.WithRole(t.Context(), c.role), "POST", "/v1/jobs/retry", strings.NewReader(c.body))
		s.api.Handler().ServeHTTP(w, r)
		if w.Code != c.status || c.status == http.StatusForbidden && !strings.Contains(w.Body.String(), "role admin") {
			t.Errorf("%v with %s: %d %s, want %d", c.role, c.body, w.Code, w.Body, c.status)
		}
	}
}

// waitDead waits until so many jobs are dead.
func (h *testDaemon) waitDead(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		page, err := h.queue.ListDead(t.Context(), job.Filter{})
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d jobs are dead, %v, want %d", len(page.Jobs), err, n)
		}
		if len(page.Jobs) == n {
			return
		}
	}
}

// TestBury has the parameter, the field of a line, and what is shown of a job.
func TestBury(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := decode[Ref](t, s.do("POST", "/v1/pools/main/jobs?task=fail&bury=meta", "payload", "Bullpen-Meta", "who=me")).ID
	if j := s.ended(id); j.Bury != "meta" || j.State != "dead" {
		t.Errorf("the job is %+v, want it dead with its bury", j)
	}
	var burial Job
	for burial.ID == "" && t.Context().Err() == nil {
		for _, j := range decode[listPage](t, s.do("GET", "/v1/jobs?task=meta&state=done", "")).Jobs {
			burial = j
		}
	}
	if burial.Parent != id || burial.Bury != "" {
		t.Errorf("the burial is %+v, want its parent", burial)
	}
	if r := s.do("GET", "/v1/jobs/"+burial.ID+"/result", ""); r.body != `who="me"` {
		t.Errorf("it was given the metadata %q", r.body)
	}
	r := s.do("POST", "/v1/pools/main/bulk", `{"task":"fail","bury":"echo"}`+"\n"+`{"bury":7}`, "Content-Type", "application/x-ndjson")
	if !strings.Contains(r.body, `"id"`) || !strings.Contains(r.body, "bury is 7") {
		t.Errorf("the bulk answers %s", r.body)
	}
	kept := decode[StatusInfo](t, s.do("GET", "/v1/status", "")).Store.DeadKept
	if kept.MaxBytes != 1<<30 || kept.MaxAge != (30*24*time.Hour).Seconds() || kept.Oldest == "" || kept.Expires <= kept.Oldest {
		t.Errorf("the dead are kept %+v", kept)
	}
}
