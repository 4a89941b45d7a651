package client_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func TestBulkLines(t *testing.T) {
	t.Parallel()
	var got asked
	c := scripted(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		got = note(r)
		_, _ = io.WriteString(w, `{"id":"a","state":"queued"}`+"\n"+`{"id":"b","state":"done","existing":true}`+"\n\n"+
			`{"error":{"type":"urn:bullpen:problem:full","status":429,"cause":"full"}}`+"\n")
	})
	when := time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("", 3600))
	refs, err := c.EnqueueAll(t.Context(), []job.Job{
		{Queue: "p", Name: "t", Payload: []byte("text <&>\n")},
		{
			Queue: "p", Payload: []byte{0xff}, Key: "k", Priority: job.Low, Delay: time.Second, At: when, Deadline: when,
			Limits: bullpen.Limits{Timeout: 1, Memory: 2, CPU: 0.5, Output: 4}, Retry: job.Retry{Attempts: 1, Crashes: 2, Backoff: 3, MaxBackoff: 4},
			Idempotent: true, Compensate: "u", Bury: "b", Meta: map[string]string{"a": "b"},
		},
		{Queue: "p", Name: "no room"},
		{Queue: "p", Key: "\xff"},
	})
	if d := cmp.Diff([]job.Ref{{ID: "a", Queue: "p", State: job.Queued}, {ID: "b", Queue: "p", State: job.Done, Existing: true}, {}, {}}, refs); d != "" {
		t.Error(d)
	}
	var bulk *client.BulkError
	if !errors.As(err, &bulk) || len(bulk.Errs) != 4 || bulk.Errs[0] != nil || !errors.Is(bulk.Errs[2], job.ErrFull) || !errors.Is(bulk.Errs[3], client.ErrBadRequest) ||
		!errors.Is(err, bullpen.ErrOverloaded) || !strings.HasPrefix(err.Error(), "2 of 4 jobs were not enqueued, the first is job 2: ") {
		t.Errorf("EnqueueAll() = %v", err)
	}
	want := asked{
		Line: "POST /v1/pools/p/bulk", Header: http.Header{"Content-Type": {"application/x-ndjson"}},
		Body: `{"task":"t","payload":"text <&>\n"}` + "\n" +
			`{"payload_base64":"/w==","key":"k","priority":"low","delay":1,"at":"2026-11-21T12:00:00Z","deadline":"2026-11-21T12:00:00Z","timeout":1e-9,"memory":2,"cpu":0.5,"output":4,` +
			`"attempts":1,"backoff":3e-9,"max_backoff":4e-9,"crashes":2,"idempotent":true,"compensate":"u","bury":"b","meta":{"a":"b"}}` + "\n" +
			`{"task":"no room"}` + "\n",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// bulkServer enqueues as a daemon does, a line for a line; every third answer it
// breaks in its midst.
type bulkServer struct {
	breaks   bool
	requests int
	most     int            // lines of a request
	jobs     map[string]int // how often each was enqueued, by payload
	keys     map[string]bool
}

func (s *bulkServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	if http.NewResponseController(w).EnableFullDuplex() != nil { // it answers while it reads, as a daemon does
		return
	}
	n := 0
	for lines := bufio.NewScanner(r.Body); lines.Scan(); n++ {
		var j struct{ Payload, Key string }
		if json.Unmarshal(lines.Bytes(), &j) != nil {
			return
		}
		existing := j.Key != "" && s.keys[j.Key]
		if !existing {
			s.jobs[j.Payload]++
		}
		s.keys[j.Key] = true
		if s.breaks && s.requests%3 == 1 && n == 20 {
			_ = http.NewResponseController(w).Flush()
			hijack(w)
			return
		}
		fmt.Fprintf(w, `{"id":"of %s","state":"queued","existing":%v}`+"\n", j.Payload, existing)
	}
	s.most = max(s.most, n)
}

func TestBulkInBatches(t *testing.T) {
	t.Parallel()
	const n = 1701
	for _, c := range []struct{ breaks, keys bool }{{false, false}, {true, false}, {true, true}} {
		s := &bulkServer{breaks: c.breaks, jobs: map[string]int{}, keys: map[string]bool{}}
		caller := scripted(t, client.Config{Keys: c.keys}, s.ServeHTTP)
		read, yielded, unsure := 0, 0, 0
		for ref, err := range caller.EnqueueSeq(t.Context(), func(yield func(job.Job) bool) {
			for read < n && yield(job.Job{Queue: "p", Payload: fmt.Append(nil, read)}) {
				read++
			}
		}) {
			switch {
			case err == nil && ref.ID != fmt.Sprint("of ", yielded):
				t.Fatalf("job %d is said to be %q", yielded, ref.ID)
			case err != nil && !errors.Is(err, job.ErrUnconfirmed):
				t.Fatalf("job %d: %v, want it unconfirmed at worst", yielded, err)
			case err != nil:
				unsure++
			case s.jobs[fmt.Sprint(yielded)] != 1:
				t.Fatalf("job %d was enqueued %d times", yielded, s.jobs[fmt.Sprint(yielded)])
			}
			yielded++
			if read > yielded+500 {
				t.Fatalf("%d jobs were read when %d had been yielded", read, yielded)
			}
		}
		if yielded != n || s.most > 500 {
			t.Errorf("%d of %d jobs were yielded, up to %d at a time", yielded, n, s.most)
		}
		if (unsure > 0) != (c.breaks && !c.keys) {
			t.Errorf("%+v: %d jobs are unconfirmed", c, unsure)
		}
	}
}

func TestBulkLeftEarly(t *testing.T) {
	t.Parallel()
	s := &bulkServer{jobs: map[string]int{}, keys: map[string]bool{}}
	caller := scripted(t, client.Config{}, s.ServeHTTP)
	read := 0
	for range caller.EnqueueSeq(t.Context(), func(yield func(job.Job) bool) {
		for yield(job.Job{Queue: "p"}) {
			read++
		}
	}) {
		break
	}
	if read > 500 || s.requests != 1 {
		t.Errorf("%d jobs were read and %d requests made for one result", read, s.requests)
	}
	if refs, err := caller.EnqueueAll(t.Context(), nil); err != nil || len(refs) != 0 || s.requests != 1 {
		t.Errorf("EnqueueAll of nothing = %v, %v", refs, err)
	}
}

func TestBulkRefused(t *testing.T) {
	t.Parallel()
	caller := scripted(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 404, "unknown-pool", "") })
	_, err := caller.EnqueueAll(t.Context(), make([]job.Job, 3))
	var bulk *client.BulkError
	if !errors.As(err, &bulk) || len(bulk.Unwrap()) != 3 || !errors.Is(err, client.ErrUnknownPool) || errors.Is(err, job.ErrUnconfirmed) {
		t.Errorf("EnqueueAll() = %v", err)
	}
}
