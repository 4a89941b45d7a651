package api

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

const nobody = "01ARZ3NDEKTSV4RRFFQ69G5FAV" // the id of no job

// ended waits for the end of a job.
func (s *site) ended(id string) Job {
	s.t.Helper()
	j := decode[Job](s.t, s.do("GET", "/v1/jobs/"+id+"?wait=20s", ""))
	if j.Outcome == "" {
		s.t.Fatalf("job %s has not ended: %+v", id, j)
	}
	return j
}

// dead makes a dead job.
func (s *site) dead(body string) string {
	s.t.Helper()
	id := s.submit("task=fail", body)
	if j := s.ended(id); j.State != "dead" {
		s.t.Fatalf("the job is %+v", j)
	}
	return id
}

func TestLookAtJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("task=talk&key=k&priority=high&compensate=echo&deadline=2999-01-01T00:00:00Z", "me")
	j := s.ended(id)
	if j.ID != id || j.Pool != "main" || j.Task != "talk" || j.State != "done" || j.Key != "k" || j.Priority != "high" || j.Attempts != 1 || j.Outcome != "ok" || j.Compensate != "echo" ||
		j.Progress != 0.5 || j.Note != "half" || len(j.Lines) != 3 || j.ResultLen != 4 || j.Worker == "" || j.Node == "" || j.Error != "" {
		t.Errorf("the job is %+v", j)
	}
	later := s.submit("delay=1h&deadline=2999-01-01T00:00:00Z", "\x00payload")
	j = decode[Job](t, s.do("GET", "/v1/jobs/"+later, ""))
	if j.State != "scheduled" || j.At == "" || j.Deadline != "2999-01-01T00:00:00Z" && !strings.HasPrefix(j.Deadline, "2") || j.PayloadLen != 8 || j.Attempts != 0 {
		t.Errorf("one of later is %+v", j)
	}
	if r := s.do("GET", "/v1/jobs/"+later+"/payload", ""); r.status != http.StatusOK || r.body != "\x00payload" {
		t.Errorf("its payload is %d %q", r.status, r.body)
	}
	if r := s.do("GET", "/v1/jobs/"+later+"/result?wait=1ms", ""); r.status != http.StatusAccepted || decode[Job](t, r).State != "scheduled" {
		t.Errorf("its result is %d %q", r.status, r.body)
	}
	for _, path := range []string{"", "/result", "/payload", "/events", "?wait=1s"} {
		p := isProblem(t, s.do("GET", "/v1/jobs/"+nobody+path, ""), problem.NotFound)
		if p.Job != nobody {
			t.Errorf("%s is about %q", path, p.Job)
		}
	}
	isProblem(t, s.do("GET", "/v1/jobs/nonsense", ""), problem.NotFound)
	isProblem(t, s.do("GET", "/v1/jobs/"+id+"?wait=x", ""), problem.BadRequest)
	isProblem(t, s.do("GET", "/v1/jobs/"+id+"?wiat=1s", ""), problem.BadRequest)
}

func TestCancelJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("delay=1h", "")
	if r := s.do("POST", "/v1/jobs/"+id+"/cancel", ""); r.status != http.StatusOK || decode[Job](t, r).State != "canceled" {
		t.Fatalf("canceling answers %d %s", r.status, r.body)
	}
	isProblem(t, s.do("POST", "/v1/jobs/"+id+"/cancel", ""), problem.Ended)
	isProblem(t, s.do("POST", "/v1/jobs/"+nobody+"/cancel", ""), problem.NotFound)
	p := isProblem(t, s.do("GET", "/v1/jobs/"+id+"/result", ""), problem.EndedBadly)
	if p.Outcome != "canceled" || p.Reason != "canceled" || p.Failure != nil {
		t.Errorf("its result is %+v", p)
	}
	if r := s.do("POST", "/v1/jobs/"+id+"/retry", ""); r.status != http.StatusAccepted {
		t.Errorf("trying it again answers %d %s", r.status, r.body)
	}
}

// TestPayloadAfterTheEnd wants payloads to be kept with outcomes, a job to be run again
// from one, and true words where it is gone.
func TestPayloadAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	small := s.submit("", "small")
	if j := s.ended(small); j.State != "done" || j.PayloadLen != len("small") {
		t.Fatalf("the job is %+v", j)
	}
	if r := s.do("GET", "/v1/jobs/"+small+"/payload", ""); r.status != http.StatusOK || r.body != "small" {
		t.Errorf("its payload is %d %q", r.status, r.body)
	}
	r := s.do("POST", "/v1/jobs/"+small+"/retry", "")
	ref := decode[Ref](t, r)
	if r.status != http.StatusAccepted || ref.ID == small {
		t.Fatalf("running it again answers %d %s", r.status, r.body)
	}
	if j := s.ended(ref.ID); j.Parent != small || j.State != "done" {
		t.Errorf("the new job is %+v", j)
	}
	if m := decode[Many](t, s.do("POST", "/v1/jobs/retry", `{"ids":["`+small+`"]}`)); m.Count != 1 || len(m.Failed) > 0 {
		t.Errorf("running it again by its id: %+v", m)
	}
	large := s.submit("", strings.Repeat("x", 10_000))
	s.ended(large)
	for _, r := range []reply{s.do("GET", "/v1/jobs/"+large+"/payload", ""), s.do("POST", "/v1/jobs/"+large+"/retry", "")} {
		if p := isProblem(t, r, problem.PayloadGone); p.Job != large || !strings.Contains(p.Detail, "queue.keep.payloads") || !strings.Contains(p.Detail, "10000") {
			t.Errorf("a payload that is not kept: %+v", p)
		}
	}
	later := s.submit("delay=1h", "")
	isProblem(t, s.do("POST", "/v1/jobs/"+later+"/retry", ""), problem.NotEnded)
}

func TestDeadJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.dead("\x00evidence")
	r := s.do("GET", "/v1/dead/"+id, "")
	j := decode[Job](t, r)
	payload, err := base64.StdEncoding.DecodeString(j.Payload)
	if err != nil || string(payload) != "\x00evidence" || j.Reason != "final" || j.Failure == nil || len(j.History) != 1 || j.History[0].Outcome != "failed" {
		t.Fatalf("a dead job is %s", r.body)
	}
	if r := s.do("GET", "/v1/jobs/"+id+"/payload", ""); r.body != "\x00evidence" {
		t.Errorf("its payload is %d %q", r.status, r.body)
	}
	for _, j := range append(decode[listPage](t, s.do("GET", "/v1/dead", "")).Jobs, j) {
		if j.Error != "no <such> file" {
			t.Errorf("it ended for %q", j.Error)
		}
	}
	isProblem(t, s.do("GET", "/v1/jobs/"+id+"/result", ""), problem.EndedBadly)
	r = s.do("POST", "/v1/jobs/"+id+"/retry", "")
	ref := decode[Ref](t, r)
	if r.status != http.StatusAccepted || ref.ID == id || r.header.Get("Location") != "/v1/jobs/"+ref.ID || ref.Pool != "main" {
		t.Fatalf("trying again answers %d %v %s", r.status, r.header, r.body)
	}
	if j := s.ended(ref.ID); j.Parent != id || j.State != "dead" {
		t.Errorf("the new job is %+v", j)
	}
	isProblem(t, s.do("POST", "/v1/dead/"+id+"/retry", ""), problem.NotDead)
	isProblem(t, s.do("POST", "/v1/jobs/"+id+"/retry", ""), problem.PayloadGone)
	isProblem(t, s.do("POST", "/v1/dead/"+nobody+"/retry", ""), problem.NotFound)
	isProblem(t, s.do("GET", "/v1/dead/"+id, ""), problem.NotFound)
	if r := s.do("DELETE", "/v1/dead/"+ref.ID, ""); r.status != http.StatusNoContent {
		t.Errorf("removing answers %d %s", r.status, r.body)
	}
	isProblem(t, s.do("DELETE", "/v1/dead/"+ref.ID, ""), problem.NotFound)
}

func TestManyDead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 7
	for range n {
		s.dead("")
	}
	page := decode[listPage](t, s.do("GET", "/v1/dead?limit=5&reason=final&outcome=failed&pool=main&task=fail", ""))
	rest := decode[listPage](t, s.do("GET", "/v1/dead?limit=5&reason=final&after="+page.Next, ""))
	if len(page.Jobs) != 5 || len(rest.Jobs) != n-5 || rest.Next != "" {
		t.Errorf("pages have %d and %d jobs, then %q", len(page.Jobs), len(rest.Jobs), rest.Next)
	}
	for _, query := range []string{"reason=quarantined", "outcome=crashed", "pool=kept", "task=echo"} {
		if page := decode[listPage](t, s.do("GET", "/v1/dead?"+query, "")); len(page.Jobs) != 0 {
			t.Errorf("%s gives %d jobs", query, len(page.Jobs))
		}
	}
	for body, says := range map[string]string{
		``: "all", `{}`: "all", `{"all":false}`: "all", `{"pool":""}`: "pool", `{"reason":"bored"}`: "reason", `{"outcome":"fine"}`: "outcome", `{"limit":0,"all":true}`: "limit",
		`{"pools":"main"}`: `did you mean "pool"`, `{"task":""}`: "empty", `[]`: "object", `{"all":"yes"}`: "true or false", `{"limit":"7","all":true}`: "limit",
	} {
		for _, path := range []string{"/v1/dead/retry", "/v1/dead/remove"} {
			if p := isProblem(t, s.do("POST", path, body), problem.BadRequest); !strings.Contains(p.Detail, says) {
				t.Errorf("%s: %q is not in %q", body, says, p.Detail)
			}
		}
	}
	isProblem(t, s.do("POST", "/v1/dead/retry", "all=true", "Content-Type", "application/x-www-form-urlencoded"), problem.MediaType)
	if m := decode[Many](t, s.do("POST", "/v1/dead/remove", `{"task":"fail","limit":3}`)); m.Count != 3 || !m.More {
		t.Errorf("removing 3 answers %+v", m)
	}
	if m := decode[Many](t, s.do("POST", "/v1/dead/retry", `{"all":true}`, "Content-Type", "application/json; charset=utf-8")); m.Count != n-3 || m.More || len(m.Failed) > 0 {
		t.Errorf("trying the rest again answers %+v", m)
	}
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	want := map[string]string{}
	want["done"] = s.submit("", "x")
	s.ended(want["done"])
	want["dead"] = s.dead("")
	want["scheduled"] = s.submit("delay=1h", "")
	want["canceled"] = s.submit("delay=1h", "")
	s.do("POST", "/v1/jobs/"+want["canceled"]+"/cancel", "")
	want["running"] = s.submit("task=hold", "")
	s.daemon.running(t, want["running"])
	want["retrying"] = s.submit("task=again&backoff=1h", "")
	for decode[Job](t, s.do("GET", "/v1/jobs/"+want["retrying"], "")).State != "retrying" {
		if t.Context().Err() != nil {
			t.Fatal("it is never tried again")
		}
	}
	far := s.do("POST", "/v1/pools/far/jobs", "")
	want["queued"] = decode[Ref](t, far).ID
	for state, id := range want {
		page := decode[listPage](t, s.do("GET", "/v1/jobs?state="+state, ""))
		if len(page.Jobs) != 1 || page.Jobs[0].ID != id || page.Jobs[0].State != state || page.Next != "" {
			t.Errorf("%s: the list is %+v, not %s", state, page, id)
		}
	}
	seen := map[string]string{}
	for next, calls := "", 0; calls == 0 || next != ""; calls++ {
		if calls > 20 {
			t.Fatal("the list does not end")
		}
		path := "/v1/jobs?limit=2"
		if next != "" {
			path += "&after=" + next
		}
		page := decode[listPage](t, s.do("GET", path, ""))
		for _, j := range page.Jobs {
			if seen[j.ID] != "" {
				t.Errorf("%s is there twice", j.ID)
			}
			seen[j.ID] = j.State
		}
		next = page.Next
	}
	for state, id := range want {
		if seen[id] != state || len(seen) != len(want) {
			t.Errorf("job %s is %q in the list of all, not %s", id, seen[id], state)
		}
	}
	if page := decode[listPage](t, s.do("GET", "/v1/jobs?pool=main&task=hold", "")); len(page.Jobs) != 1 || page.Jobs[0].ID != want["running"] {
		t.Errorf("by task: %+v", page)
	}
	for _, query := range []string{"state=bored", "limit=0", "limit=1001", "limit=x", "after=x", "after=9.1", "pool=A", "pool=", "sate=done"} {
		isProblem(t, s.do("GET", "/v1/jobs?"+query, ""), problem.BadRequest)
	}
	close(s.daemon.release)
}

func TestPools(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := decode[Pools](t, s.do("GET", "/v1/pools", ""))
	if len(all.Pools) != 3 || all.Pools[2].Name != "main" {
		t.Fatalf("the pools are %+v", all)
	}
	s.do("POST", "/v1/pools/far/jobs?priority=low", "")
	p := decode[PoolInfo](t, s.do("GET", "/v1/pools/far", ""))
	if len(p.Jobs) != 3 || p.Jobs[2].Waiting != 1 || p.Jobs[2].Oldest == "" || p.Workers.Busy != 2 || p.Outcomes["crashed"] != 2 || p.RunP99 != 1 || p.Error == "" {
		t.Errorf("a pool is %+v", p)
	}
	if p := decode[PoolInfo](t, s.do("POST", "/v1/pools/far/pause", "")); !p.Paused {
		t.Error("it is not paused")
	}
	if p := decode[PoolInfo](t, s.do("POST", "/v1/pools/far/resume", "")); p.Paused {
		t.Error("it is still paused")
	}
	if r := s.do("POST", "/v1/pools/main/scale", `{"max":4}`); r.status != http.StatusOK || s.daemon.scaled != [2]int{-1, 4} {
		t.Errorf("scaling answers %d %s and asks for %v", r.status, r.body, s.daemon.scaled)
	}
	for _, body := range []string{``, `{}`, `{"min":5,"max":4}`, `{"max":0}`, `{"min":-1}`, `{"mni":1}`, `{"min":"1"}`, `{"min":1.5}`} {
		isProblem(t, s.do("POST", "/v1/pools/main/scale", body), problem.BadRequest)
	}
	if r := s.do("POST", "/v1/pools/main/reload", ""); r.status != http.StatusOK {
		t.Errorf("reloading answers %d %s", r.status, r.body)
	}
	if r := s.do("POST", "/v1/reload", ""); r.status != http.StatusOK || decode[Changed](t, r).Changed[0] != "pools.main" {
		t.Errorf("reading the configuration answers %d %s", r.status, r.body)
	}
	if p := isProblem(t, s.do("POST", "/v1/backup", `{"dir":"/somewhere/new"}`), problem.Refused); !strings.Contains(p.Detail, "in the memory of this program") {
		t.Errorf("a backup of what is in memory is refused with %+v", p)
	}
	for _, path := range []string{"scale", "pause", "resume", "reload"} {
		isProblem(t, s.do("POST", "/v1/pools/nope/"+path, "{}"), problem.UnknownPool)
	}
	isProblem(t, s.do("GET", "/v1/pools/nope", ""), problem.UnknownPool)
}

func TestPoolsThatFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.daemon.fail(fmt.Errorf("%w: python: no module named x", errStart))
	p := isProblem(t, s.do("POST", "/v1/pools/main/reload", ""), problem.StartFailed)
	if !strings.Contains(p.Detail, "no module named x") {
		t.Errorf("%+v", p)
	}
	s.daemon.fail(joined())
	if p := isProblem(t, s.do("POST", "/v1/reload", ""), problem.BadConfig); len(p.Faults) != 2 || p.Faults[1] != "two" {
		t.Errorf("%+v", p)
	}
	if p := isProblem(t, s.do("POST", "/v1/pools/main/scale", `{"min":1}`), problem.BadRequest); len(p.Faults) != 2 {
		t.Errorf("%+v", p)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ended(s.submit("", ""))
	i := decode[StatusInfo](t, s.do("GET", "/v1/status", ""))
	if i.Version != "test" || i.Node != "node" || i.Uptime < 60 || !i.Ready || !i.Live || i.Stopping || i.Store.Kind != "memory" || i.Queue.Enqueued != 1 || i.Queue.Ended["ok"] != 1 || i.LogLinesDropped != 3 {
		t.Errorf("the status is %+v", i)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for path, allow := range map[string]string{"/v1/jobs": "GET, HEAD", "/v1/pools/main/jobs": "POST", "/v1/dead/" + nobody: "DELETE, GET, HEAD"} {
		r := s.do("PUT", path, "")
		isProblem(t, r, problem.Method)
		if got := r.header.Get("Allow"); got != allow {
			t.Errorf("%s allows %q, want %q", path, got, allow)
		}
	}
	for _, path := range []string{"/", "/v2/jobs", "/v1", "/v1/jobs/" + nobody + "/nope"} {
		isProblem(t, s.do("GET", path, ""), problem.NotFound)
	}
	later := s.submit("delay=1h", "")
	for _, path := range []string{"/v1/status", "/v1/jobs/" + later, "/v1/jobs/" + later + "/events"} {
		if r := s.do("HEAD", path, ""); r.status != http.StatusOK || r.body != "" {
			t.Errorf("HEAD %s answers %d %q", path, r.status, r.body)
		}
	}
	for _, id := range []string{"retry", "remove"} {
		for _, method := range []string{"GET", "DELETE"} {
			r := s.do(method, "/v1/dead/"+id, "")
			isProblem(t, r, problem.Method)
			if got := r.header.Get("Allow"); got != "POST" {
				t.Errorf("%s of %s allows %q", method, id, got)
			}
		}
	}
}
