package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// batch waits for the end of a batch.
func (s *site) batch(id string) Batch {
	s.t.Helper()
	b := decode[Batch](s.t, s.do("GET", "/v1/batches/"+id+"?wait=20s", ""))
	if b.EndedAt == "" {
		s.t.Fatalf("batch %s has not ended: %+v", id, b)
	}
	return b
}

func TestChains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.do("POST", "/v1/chains", `{"jobs":[{"pool":"main","task":"echo","payload":"x"},{"pool":"kept","task":"echo","delay":0.01},{"task":"meta","meta":{"a":"b"}}]}`)
	ref := decode[Ref](t, r)
	if r.status != http.StatusAccepted || ref.Pool != "main" || r.header.Get("Location") != "/v1/jobs/"+ref.ID {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	for i, id := 1, ref.ID; id != ""; i++ {
		j := s.ended(id)
		if pool := []string{"", "main", "kept", "kept"}[i]; j.Chain != ref.ID || j.Link != i || j.Links != 3 || j.Pool != pool || (j.Next == "") != (i == 3) {
			t.Errorf("job %d is %+v", i, j)
		}
		if id = j.Next; id == "" {
			if r := s.do("GET", "/v1/jobs/"+j.ID+"/result", ""); r.body != `a="b"` {
				t.Errorf("the chain gives %q", r.body)
			}
		}
	}
	for body, says := range map[string]string{
		"":                           "there is no job",
		`{"jobs":[]}`:                "there is no job",
		`{"jobs":[{"task":"echo"}]}`: "names no pool",
		`{"jobs":[{"pool":"main"},{"payload":"x"}]}`:      "has a payload",
		`{"jobs":[{"pool":"main"},{"then":[{}]}]}`:        "has jobs in then",
		`{"jobs":[{"pool":"main","then":[{"key":"x"}]}]}`: `there is no field "key"`,
		`{"jobs":{}}`: "use an array",
		`{"jobs":[{"pool":"main"},{"delay":"x"}]}`:       "job 1: ",
		`{"jobs":[` + strings.Repeat("{},", 64) + `{}]}`: "64 jobs at most",
		// They are counted before they are read, with those that are in then.
		`{"jobs":[` + strings.Repeat("7,", 64) + `7]}`:                               "64 jobs at most",
		`{"jobs":[{"pool":"main","then":[` + strings.Repeat("{},", 62) + `{}]},{}]}`: "64 jobs at most",
		`{"jobs":[{"pool":"main","then":[` + strings.Repeat("7,", 63) + `7]}]}`:      "64 at most",
		`{"jobs":[{"pool":"main","then":7}]}`:                                        "use an array",
		`{"jobs":[{"pool":"UP"}]}`:                                                   "pool",
		`{"job":[]}`:                                                                 `did you mean "jobs"`,
	} {
		if p := isProblem(t, s.do("POST", "/v1/chains", body), problem.BadRequest); !strings.Contains(p.Detail, says) {
			t.Errorf("%.60s is answered with %q, want %q", body, p.Detail, says)
		}
	}
	isProblem(t, s.do("POST", "/v1/chains", `{"jobs":[{"pool":"main"},{"pool":"none"}]}`), problem.UnknownPool)
	if all := s.bulk(`{"task":"echo","payload":"y","then":[{"task":"echo"},{"task":"fail"}]}`); len(all) != 1 || all[0].Error != nil || s.ended(all[0].ID).Links != 3 {
		t.Errorf("a chain in a bulk is %+v", all)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body := `{"key":"k","pool":"main","meta":{"a":"b"},"then":{"task":"echo","pool":"kept","group":"acme","bury":"tell","attempts":2,"delay":0.01},"failed":{"task":"echo","payload_base64":"/w=="},
		"jobs":[{"task":"echo"},{"pool":"kept","task":"fail"},{"task":"echo","then":[{"task":"echo"}]}]}`
	r := s.do("POST", "/v1/batches", body)
	made := decode[Batch](t, r)
	if r.status != http.StatusCreated || r.header.Get("Location") != "/v1/batches/"+made.ID || made.Total != 3 || made.Then == nil || made.Then.Pool != "kept" || made.Then.Group != "acme" || made.Then.Bury != "tell" ||
		made.FailedJob == nil || made.FailedJob.Base64 != "/w==" || made.Meta["a"] != "b" {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	if r := s.do("POST", "/v1/batches", body); r.status != http.StatusOK || decode[Batch](t, r).ID != made.ID || !decode[Batch](t, r).Existing {
		t.Errorf("again it is %d %s", r.status, r.body)
	}
	b := s.batch(made.ID)
	if b.State != "done" || b.OK != 2 || b.Failed != 1 || b.FirstFailed == "" {
		t.Errorf("the batch is %+v", b)
	}
	report := s.ended(b.ThenID)
	if r := s.do("GET", "/v1/jobs/"+report.ID+"/result", ""); !strings.Contains(r.body, `"ok":2,"failed":1`) || !strings.Contains(r.body, b.FirstFailed) {
		t.Errorf("the callback got %s", r.body)
	}
	if r := s.do("GET", "/v1/jobs/"+s.ended(b.FailedID).ID+"/result", ""); r.body != "\xff" {
		t.Errorf("the callback of the failure got %q", r.body)
	}
	page := decode[listPage](t, s.do("GET", "/v1/batches/"+b.ID+"/jobs?limit=2", ""))
	if len(page.Jobs) != 2 || page.Next == "" || page.Jobs[1].State != "dead" || page.Jobs[1].Batch != b.ID || *page.Jobs[1].Index != 1 {
		t.Errorf("its jobs are %+v", page)
	}
	page = decode[listPage](t, s.do("GET", "/v1/batches/"+b.ID+"/jobs?after="+page.Next, ""))
	if len(page.Jobs) != 1 || page.Next != "" || page.Jobs[0].Link != 2 {
		t.Errorf("its last jobs are %+v", page)
	}
	if all := decode[batchPage](t, s.do("GET", "/v1/batches?state=done,canceled", "")); len(all.Batches) != 1 || all.Batches[0].ID != b.ID {
		t.Errorf("the batches are %+v", all)
	}
	isProblem(t, s.do("POST", "/v1/batches/"+b.ID+"/cancel", ""), problem.Ended)
}

// TestListOfBatches has both orders, and lists without the payloads of callbacks.
func TestListOfBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var ids, back []string
	for range 3 {
		b := decode[Batch](t, s.do("POST", "/v1/batches", `{"pool":"main","then":{"payload":"`+strings.Repeat("x", 1000)+`"},"failed":{"task":"echo"}}`))
		ids, back = append(ids, b.ID), append([]string{b.ID}, back...)
	}
	for order, want := range map[string][]string{"": ids, "&order=oldest": ids, "&order=newest": back} {
		var got []string
		for next := ""; ; {
			r := s.do("GET", "/v1/batches?limit=2"+order+next, "")
			page := decode[batchPage](t, r)
			for i := range page.Batches {
				b := &page.Batches[i]
				if got = append(got, b.ID); b.Then == nil || b.FailedJob == nil || b.Then.Payload != "" || b.FailedJob.Task != "echo" {
					t.Errorf("in the list is %+v, want the size of the payload alone", b)
				}
			}
			if next = "&after=" + page.Next; page.Next == "" || len(got) > 3 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %q gives %v, want %v", order, got, want)
		}
	}
	if b := decode[Batch](t, s.do("GET", "/v1/batches/"+ids[0], "")); b.Then == nil || len(b.Then.Payload) != 1000 {
		t.Errorf("by itself it is %+v, want the payload", b)
	}
}

func TestBatchInPieces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := decode[Batch](t, s.do("POST", "/v1/batches", `{"then":{"pool":"main","task":"echo"}}`))
	if b.State != "open" {
		t.Fatalf("the batch is %+v", b)
	}
	path := "/v1/batches/" + b.ID
	add := func(query, body string) (all []bulkAnswer) {
		t.Helper()
		r := s.do("POST", path+"/jobs"+query, body, "Content-Type", "application/x-ndjson")
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		for line := range strings.Lines(r.body) {
			var a bulkAnswer
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		return all
	}
	all := add("?offset=2&pool=main", `{"task":"echo"}
{"taks":"echo"}

{"task":"echo","pool":"kept"}`)
	if len(all) != 3 || all[0].ID == "" || all[1].Error == nil || all[2].ID == "" {
		t.Errorf("the answers are %+v", all)
	}
	if p := isProblem(t, s.do("POST", path+"/seal", `{"total":5}`), problem.Incomplete); !strings.Contains(p.Detail, "members 0 to 1, 3 are not there") {
		t.Errorf("sealed with gaps: %q", p.Detail)
	}
	if all = add("?offset=3", `{"task":"echo"}`); len(all) != 1 || all[0].Error == nil || !strings.Contains(all[0].Error.Detail, "names no pool") {
		t.Errorf("a job without a pool is %+v", all)
	}
	add("?offset=3", `{"pool":"main","task":"echo"}`)
	if all = add("", strings.Repeat(`{"pool":"main","task":"echo"}`+"\n", 3)); len(all) != 3 || all[0].Existing || !all[2].Existing {
		t.Errorf("the answers are %+v", all)
	}
	if all = add("?offset=5", `{"pool":"main","key":"x"}`); len(all) != 1 || all[0].Error == nil || !strings.Contains(all[0].Error.Detail, "it has a key") {
		t.Errorf("a job with a key is %+v", all)
	}
	for range 2 {
		if sealed := decode[Batch](t, s.do("POST", path+"/seal", `{"total":5}`)); sealed.State == "open" || sealed.Total != 5 {
			t.Errorf("sealed it is %+v", sealed)
		}
	}
	if b = s.batch(b.ID); b.OK != 5 {
		t.Errorf("the batch is %+v", b)
	}
	isProblem(t, s.do("POST", path+"/jobs", ""), problem.Ended)
	isProblem(t, s.do("POST", path+"/seal", `{"total":6}`), problem.Ended)
	isProblem(t, s.do("POST", path+"/seal", `{}`), problem.BadRequest)
}

func TestBatchFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for body, says := range map[string]string{
		`{"jobs":[{}]}`:                        "names no pool",
		`{"then":{"pool":"main","key":"x"}}`:   "Then has a key",
		`{"pool":"main","jobs":[{"key":"x"}]}`: "it has a key",
		`{"then":[]}`:                          "then",
		`{"key":""}`:                           "key",
		`{"meta":{"bullpen.x":"y"}}`:           `begins with "bullpen."`,
		`{"pool":"main","jobs":[{},{"at":1}]}`: "job 1: ",
		`{"pool":"main","jobs":"x"}`:           "use an array",
		`[]`:                                   "not a JSON object",
		`{"pool":"main","jobs":[` + strings.Repeat("7,", 10_000) + `7]}`:                                        "more than 10000 jobs: leave out jobs, add them by POST /v1/batches/{id}/jobs",
		`{"pool":"main","jobs":[` + strings.Repeat(`{"then":[`+strings.Repeat("{},", 49)+`{}]},`, 200) + `{}]}`: "more than 10000 jobs",
	} {
		if p := isProblem(t, s.do("POST", "/v1/batches", body), problem.BadRequest); !strings.Contains(fmt.Sprint(p.Detail, p.Faults), says) {
			t.Errorf("%s is answered with %q, want %q", body, p.Detail, says)
		}
	}
	isProblem(t, s.do("POST", "/v1/batches", `{"pool":"none","jobs":[{}]}`), problem.UnknownPool)
	for _, c := range [][2]string{
		{"GET", ""}, {"GET", "?wait=1s"}, {"GET", "/jobs"}, {"POST", "/jobs"}, {"POST", "/cancel"},
	} {
		isProblem(t, s.do(c[0], "/v1/batches/"+nobody+c[1], ""), problem.NotFound)
	}
	isProblem(t, s.do("POST", "/v1/batches/"+nobody+"/seal", `{"total":1}`), problem.NotFound)
	for _, path := range []string{"?state=x", "?order=best", "?after=x", "?limit=0", "/" + nobody + "/jobs?after=-1"} {
		isProblem(t, s.do("GET", "/v1/batches"+path, ""), problem.BadRequest)
	}
	held := decode[Batch](t, s.do("POST", "/v1/batches", `{"pool":"main","jobs":[{"task":"wait"},{"task":"echo","delay":"1h"}],"then":{"task":"echo"}}`))
	if b := decode[Batch](t, s.do("POST", "/v1/batches/"+held.ID+"/cancel", "")); b.State != "canceled" {
		t.Errorf("canceled it is %+v", b)
	}
	if b := s.batch(held.ID); b.Canceled != 2 || b.ThenID == "" {
		t.Errorf("the batch is %+v", b)
	}
}
