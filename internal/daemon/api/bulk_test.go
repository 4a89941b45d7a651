package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

func recorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// bulkAnswer is one line of the answer of a bulk.
type bulkAnswer struct {
	ID       string           `json:"id"`
	State    string           `json:"state"`
	Existing bool             `json:"existing"`
	Error    *problem.Problem `json:"error"`
}

func (s *site) bulk(body string) []bulkAnswer {
	s.t.Helper()
	r := s.do("POST", "/v1/pools/main/bulk", body, "Content-Type", "application/x-ndjson")
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	var all []bulkAnswer
	for line := range strings.Lines(r.body) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var a bulkAnswer
		if err := d.Decode(&a); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

func TestBulk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := s.bulk(`{"payload":"one \u00fc\n"}
 {"task":"echo","payload_base64":"AP8=","priority":"high","meta":{"a":"b"}}

{"payload":"x","key":"k","delay":3600}
{"payload":"y","key":"k"}
{"payload":"z","delay":"1h","timeout":1.5,"memory":1024,"output":"1KiB","cpu":0.5,"attempts":2,"backoff":"1s","idempotent":true,"deadline":"2999-01-01T00:00:00Z"}
{}`)
	if len(all) != 6 {
		t.Fatalf("there are %d answers", len(all))
	}
	for i, want := range []string{"queued", "queued", "scheduled", "scheduled", "scheduled", "queued"} {
		if all[i].State != want || all[i].ID == "" || all[i].Error != nil {
			t.Errorf("line %d: %+v", i, all[i])
		}
	}
	if !all[3].Existing || all[3].ID != all[2].ID {
		t.Errorf("the same key gave %+v and %+v", all[2], all[3])
	}
	for i, want := range map[int]string{0: "one ü\n", 1: "\x00\xff"} {
		if r := s.do("GET", "/v1/jobs/"+all[i].ID+"/result?wait=20s", ""); r.body != want {
			t.Errorf("job %d answers %d %q", i, r.status, r.body)
		}
	}
}

func TestBulkFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		line  string
		cause problem.Cause
		says  string
	}{
		{`{"payload":"x"`, problem.BadRequest, "Line 1: the line is not valid JSON"},
		{`[]`, problem.BadRequest, "not a JSON object"},
		{`{"Payload":"x"}`, problem.BadRequest, `did you mean "payload"`},
		{`{"payload":"x","payload":"y"}`, problem.BadRequest, "twice"},
		{`{"payload":"x","payload_base64":"eA=="}`, problem.BadRequest, "use one"},
		{`{"payload":7}`, problem.BadRequest, "use a string"},
		{`{"payload":null}`, problem.BadRequest, "leave it out"},
		{`{"payload_base64":"x"}`, problem.BadRequest, "standard base64"},
		{`{"attempts":"2"}`, problem.BadRequest, "without quotes"},
		{`{"attempts":2.5}`, problem.BadRequest, "use a number"},
		{`{"idempotent":"true"}`, problem.BadRequest, "without quotes"},
		{`{"idempotent":1}`, problem.BadRequest, "true or false"},
		{`{"delay":-1}`, problem.BadRequest, "seconds"},
		{`{"delay":1e99}`, problem.BadRequest, "seconds"},
		{`{"delay":true}`, problem.BadRequest, "duration"},
		{`{"memory":{}}`, problem.BadRequest, "bytes"},
		{`{"task":7}`, problem.BadRequest, "use a string"},
		{`{"meta":{"bullpen.x":"1"}}`, problem.BadRequest, "bullpen."},
		{`{"meta":{"x":1}}`, problem.BadRequest, "strings"},
		{`{"meta":[]}`, problem.BadRequest, "object of strings"},
		{`{"wait":"1s"}`, problem.BadRequest, "no field"},
		{`{"at":"2030-01-01T00:00:00Z","deadline":"2029-01-01T00:00:00Z"}`, problem.BadRequest, "deadline"},
		{"{\"payload\":\"\xff\"}", problem.BadRequest, "payload_base64"},
		{`{"payload":"` + strings.Repeat("x", 64<<10+1) + `"}`, problem.TooLarge, "queue.max_payload"},
		{`{"payload":"` + strings.Repeat("x", 512<<10) + `"}`, problem.TooLarge, "queue.max_payload"},
	} {
		all := s.bulk(c.line + "\n{}")
		if len(all) != 2 || all[0].Error == nil || all[1].Error != nil || all[1].ID == "" {
			t.Errorf("%.60s is answered with %+v", c.line, all)
			continue
		}
		if p := all[0].Error; p.Cause != c.cause || !strings.Contains(p.Detail, c.says) || !strings.HasPrefix(p.Detail, "Line 1: ") {
			t.Errorf("%.60s: %+v", c.line, p)
		}
	}
	isProblem(t, s.do("POST", "/v1/pools/nope/bulk", ""), problem.UnknownPool)
	isProblem(t, s.do("POST", "/v1/pools/main/bulk", "{}", "Content-Type", "text/plain"), problem.MediaType)
}

// TestBulkStreams has answers come while the body is still sent, without a whole
// batch.
func TestBulkStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body, send := io.Pipe()
	resp := s.open(t.Context(), "POST", "/v1/pools/main/bulk", body)
	defer resp.Body.Close() // it is read
	lines := bufio.NewScanner(resp.Body)
	for n := range 5 {
		fmt.Fprintf(send, `{"payload":"%d","delay":"1h"}`+"\n", n) // the answer shows it
		if !lines.Scan() || !strings.Contains(lines.Text(), `"scheduled"`) {
			t.Fatalf("line %d is answered with %q", n, lines.Text())
		}
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("there is more: %q", lines.Text())
	}
}

func TestBulkOfMany(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 5000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"payload":"%d","delay":"1h"}`+"\n", i)
	}
	seen := map[string]bool{}
	for i, a := range s.bulk(b.String()) {
		if a.Error != nil || seen[a.ID] {
			t.Fatalf("line %d: %+v", i, a)
		}
		seen[a.ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d are there", len(seen), n)
	}
}

// TestBulkIsCut has the client go in the midst of its body: what was not put
// stays out, and nothing is left running.
func TestBulkIsCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	body, send := io.Pipe()
	resp := s.open(ctx, "POST", "/v1/pools/main/bulk", body)
	fmt.Fprintln(send, `{"delay":"1h"}`) // the answer shows it
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("no answer")
	}
	fmt.Fprint(send, `{"delay":"1h"`) // half a line
	cancel()
	resp.Body.Close() // nothing is expected of it
	send.Close()      // nobody reads
	s.http.Close()    // waits for the handler
	page, err := s.daemon.queue.List(t.Context(), job.Filter{States: []job.State{job.Scheduled, job.Retrying}})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("there are %d jobs, %v", len(page.Jobs), err)
	}
}

func TestEachReason(t *testing.T) {
	t.Parallel()
	a, h := newAPI(t)
	_ = a
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	_, err := h.queue.EnqueueAll(ctx, make([]job.Job, 3))
	r := eachReason(err)
	for i := range 3 {
		if r.of(i) == nil || !strings.Contains(r.of(i).Error(), errTest.Error()) {
			t.Errorf("job %d: %v", i, r.of(i))
		}
	}
	if eachReason(nil).of(0) != nil || eachReason(errTest).of(7) == nil {
		t.Error("an error that names no job is of all")
	}
}
