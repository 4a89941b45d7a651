package client_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// scripted returns a client of a server that does what the test says.
func scripted(t *testing.T, c client.Config, answer http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return connect(t, c)
}

// asked is a request as the server saw it.
type asked struct {
	Line, Body string
	Header     http.Header // those of ours
}

// traceRequests are calls that name a trace.
func traceRequests() map[string]request {
	return map[string]request{
		"Enqueue in a trace": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Enqueue(ctx, job.Job{Queue: "p", Meta: map[string]string{"traceparent": traceparent, "tracestate": "a=b", "k": "v"}})
			},
			202, refText,
			asked{"POST /v1/pools/p/jobs", "", http.Header{"Bullpen-Meta": {"k=v"}, "Traceparent": {traceparent}, "Tracestate": {"a=b"}}},
		},
		"Enqueue in what is no trace": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Enqueue(ctx, job.Job{Queue: "p", Meta: map[string]string{"traceparent": "00-1"}})
			},
			202, refText,
			asked{"POST /v1/pools/p/jobs", "", http.Header{"Bullpen-Meta": {"traceparent=00-1"}}},
		},
		"Enqueue in the trace of a task": {
			func(ctx context.Context, c *client.Client) (any, error) {
				t := bullpen.Task{ID: "01Q", Meta: map[string]string{"traceparent": traceparent, "k": "v"}}
				return c.Enqueue(client.WithParent(ctx, t), job.Job{Queue: "p"})
			},
			202, refText,
			asked{"POST /v1/pools/p/jobs", "", http.Header{"Bullpen-Parent": {"01Q"}, "Traceparent": {traceparent}}},
		},
	}
}

// traceparent is that of somebody's span.
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func note(r *http.Request) asked {
	body, _ := io.ReadAll(r.Body)
	a := asked{Line: r.Method + " " + r.URL.RequestURI(), Body: string(body), Header: http.Header{}}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Bullpen-") || strings.HasPrefix(name, "Trace") || name == "Authorization" || name == "Content-Type" || name == "Last-Event-Id" {
			a.Header[name] = values
		}
	}
	return a
}

const (
	refText  = `{"id":"01J","pool":"p","state":"queued"}`
	jobText  = `{"id":"01J","pool":"p","task":"t","state":"running","attempts":1,"some_day":true}`
	poolText = `{"name":"p","state":"open","min":1,"max":4,"workers":{"idle":1},"run_p50":0.25}`
	pageText = `{"jobs":[` + jobText + `],"next":"7"}`
)

// request is what a call is to ask.
type request struct {
	call   func(context.Context, *client.Client) (any, error)
	status int
	answer string
	want   asked
}

// manyRequests are about many jobs.
func manyRequests() map[string]request {
	when := time.Date(2026, 11, 21, 13, 0, 0, 5, time.UTC)
	return map[string]request{
		"List the newest": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.List(ctx, job.Filter{Group: "g", Schedule: "s", Batch: "01B", Search: "a b", Since: when, Before: when.Add(time.Hour), Newest: true, Cause: "89af7e51c13b"})
			},
			200, pageText, asked{Line: "GET /v1/jobs?group=g&schedule=s&batch=01B&cause=89af7e51c13b&search=a+b&since=2026-11-21T13%3A00%3A00.000000005Z&before=2026-11-21T14%3A00%3A00.000000005Z&order=newest", Header: http.Header{}},
		},
		"DeadCauses": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.DeadCauses(ctx, job.Filter{Queue: "p", Search: "x", Newest: true, Limit: 3, Cause: "0", States: []job.State{job.Dead}})
			},
			200, `{"causes":[{"cause":"89af7e51c13b","outcome":"failed","count":2,"sample":"01J"}],"jobs":2}`, asked{Line: "GET /v1/dead/causes?pool=p&search=x", Header: http.Header{}},
		},
		"RetryDeadAll of a cause": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.RetryDeadAll(ctx, job.Filter{Group: "g", Schedule: "s", Batch: "01B", Cause: "89af7e51c13b", Since: when, After: "3.1", States: []job.State{job.Queued}})
			},
			200, `{"count":2}`, asked{Line: "POST /v1/dead/retry", Body: `{"group":"g","schedule":"s","batch":"01B","cause":"89af7e51c13b","since":"2026-11-21T13:00:00.000000005Z","after":"3.1"}`, Header: http.Header{"Content-Type": {"application/json"}}},
		},
		"CancelAll": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.CancelAll(ctx, job.Filter{Queue: "p", States: []job.State{job.Queued, job.Running}, Newest: true})
			},
			200, `{"count":2}`, asked{Line: "POST /v1/jobs/cancel", Body: `{"pool":"p","state":"queued,running","order":"newest"}`, Header: http.Header{"Content-Type": {"application/json"}}},
		},
		"RetryIDs": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.RetryIDs(ctx, "01J", "01K") },
			200, `{"count":2}`, asked{Line: "POST /v1/jobs/retry", Body: `{"ids":["01J","01K"]}`, Header: http.Header{"Content-Type": {"application/json"}}},
		},
		"CancelIDs": {
			func(ctx context.Context, c *client.Client) (any, error) { return c.CancelIDs(ctx, "01J") },
			200, `{"count":1}`, asked{Line: "POST /v1/jobs/cancel", Body: `{"ids":["01J"]}`, Header: http.Header{"Content-Type": {"application/json"}}},
		},
	}
}

func jobRequests() map[string]request {
	when := time.Date(2026, 11, 21, 13, 0, 0, 5, time.UTC)
	return map[string]request{
		"Enqueue": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Enqueue(client.WithParent(ctx, bullpen.Task{ID: "01P"}), job.Job{
					Queue: "p", Name: "a b", Payload: []byte("x\x00"), Key: "k&1", Priority: job.High, Delay: time.Minute, Deadline: when,
					Limits:     bullpen.Limits{Timeout: time.Second, Memory: 1 << 20, CPU: 0.5, Output: 100},
					Retry:      job.Retry{Attempts: 3, Crashes: 2, Backoff: time.Second, MaxBackoff: time.Minute},
					Idempotent: true, Compensate: "undo", Bury: "tell", Meta: map[string]string{"é": "\x00\n"},
				})
			},
			202, refText,
			asked{
				"POST /v1/pools/p/jobs?task=a+b&key=k%261&priority=high&delay=1m0s&deadline=2026-11-21T13%3A00%3A00.000000005Z&timeout=1s&memory=1048576&cpu=0.5&output=100" +
					"&attempts=3&backoff=1s&max_backoff=1m0s&crashes=2&idempotent=true&compensate=undo&bury=tell",
				"x\x00", http.Header{"Bullpen-Meta": {"%C3%A9=%00%0A"}, "Bullpen-Parent": {"01P"}},
			},
		},
		"Enqueue from a task": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Enqueue(client.WithParent(ctx, bullpen.Task{ID: "01Q"}), job.Job{Queue: "p/../q", At: when})
			},
			202, refText,
			asked{"POST /v1/pools/p%2F..%2Fq/jobs?at=2026-11-21T13%3A00%3A00.000000005Z", "", http.Header{"Bullpen-Parent": {"01Q"}}},
		},
		"Run": {
			func(ctx context.Context, c *client.Client) (any, error) {
				_, r, err := c.Run(ctx, job.Job{Queue: "p", Payload: []byte("x")})
				return r, err
			},
			200, "result", asked{"POST /v1/pools/p/jobs?wait=5m0s", "x", http.Header{}},
		},
		"Wait":    {func(ctx context.Context, c *client.Client) (any, error) { return c.Wait(ctx, "01J") }, 200, "r", asked{Line: "GET /v1/jobs/01J/result?wait=5m0s", Header: http.Header{}}},
		"Result":  {func(ctx context.Context, c *client.Client) (any, error) { return c.Result(ctx, "01J") }, 200, "r", asked{Line: "GET /v1/jobs/01J/result", Header: http.Header{}}},
		"Get":     {func(ctx context.Context, c *client.Client) (any, error) { return c.Get(ctx, "01J") }, 200, jobText, asked{Line: "GET /v1/jobs/01J", Header: http.Header{}}},
		"Get ..":  {func(ctx context.Context, c *client.Client) (any, error) { return c.Get(ctx, "..") }, 200, jobText, asked{Line: "GET /v1/jobs/%00", Header: http.Header{}}},
		"Payload": {func(ctx context.Context, c *client.Client) (any, error) { return c.Payload(ctx, "01J") }, 200, "r", asked{Line: "GET /v1/jobs/01J/payload", Header: http.Header{}}},
		"List": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.List(ctx, job.Filter{Queue: "p", Name: "t", States: []job.State{job.Queued, job.Dead}, Limit: 5, After: "3", Reason: job.Final, Outcome: "failed"})
			},
			200, pageText, asked{Line: "GET /v1/jobs?pool=p&task=t&state=queued%2Cdead&reason=final&outcome=failed&limit=5&after=3", Header: http.Header{}},
		},
		"ListDead": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.ListDead(ctx, job.Filter{Reason: job.Quarantined, Outcome: "crashed", States: []job.State{job.Queued}})
			},
			200, pageText, asked{Line: "GET /v1/dead?reason=quarantined&outcome=crashed", Header: http.Header{}},
		},
	}
}

func otherRequests() map[string]request {
	two := 2
	return map[string]request{
		"Cancel":    {func(ctx context.Context, c *client.Client) (any, error) { return c.Cancel(ctx, "01J") }, 200, jobText, asked{Line: "POST /v1/jobs/01J/cancel", Header: http.Header{}}},
		"Retry":     {func(ctx context.Context, c *client.Client) (any, error) { return c.Retry(ctx, "01J") }, 202, refText, asked{Line: "POST /v1/jobs/01J/retry", Header: http.Header{}}},
		"GetDead":   {func(ctx context.Context, c *client.Client) (any, error) { return c.GetDead(ctx, "01J") }, 200, jobText, asked{Line: "GET /v1/dead/01J", Header: http.Header{}}},
		"RetryDead": {func(ctx context.Context, c *client.Client) (any, error) { return c.RetryDead(ctx, "01J") }, 202, refText, asked{Line: "POST /v1/dead/01J/retry", Header: http.Header{}}},
		"RemoveDead": {
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.RemoveDead(ctx, "01J") },
			204, "", asked{Line: "DELETE /v1/dead/01J", Header: http.Header{}},
		},
		"RetryDeadAll": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.RetryDeadAll(ctx, job.Filter{Queue: "p", Limit: 9})
			},
			200, `{"count":3,"more":true}`,
			asked{"POST /v1/dead/retry", `{"pool":"p","limit":9}`, http.Header{"Content-Type": {"application/json"}}},
		},
		"RemoveDeadAll": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.RemoveDeadAll(ctx, job.Filter{})
			},
			200, `{"count":3,"failed":[{"id":"a","error":"b"}]}`,
			asked{"POST /v1/dead/remove", `{"all":true}`, http.Header{"Content-Type": {"application/json"}}},
		},
		"Pools":      {func(ctx context.Context, c *client.Client) (any, error) { return c.Pools(ctx) }, 200, `{"pools":[` + poolText + `]}`, asked{Line: "GET /v1/pools", Header: http.Header{}}},
		"Pool":       {func(ctx context.Context, c *client.Client) (any, error) { return c.Pool(ctx, "p") }, 200, poolText, asked{Line: "GET /v1/pools/p", Header: http.Header{}}},
		"Pause":      {func(ctx context.Context, c *client.Client) (any, error) { return c.Pause(ctx, "p") }, 200, poolText, asked{Line: "POST /v1/pools/p/pause", Header: http.Header{}}},
		"Resume":     {func(ctx context.Context, c *client.Client) (any, error) { return c.Resume(ctx, "p") }, 200, poolText, asked{Line: "POST /v1/pools/p/resume", Header: http.Header{}}},
		"ReloadPool": {func(ctx context.Context, c *client.Client) (any, error) { return c.ReloadPool(ctx, "p") }, 200, poolText, asked{Line: "POST /v1/pools/p/reload", Header: http.Header{}}},
		"Scale": {
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.Scale(ctx, "p", client.Scale{Max: &two})
			},
			200, poolText, asked{"POST /v1/pools/p/scale", `{"max":2}`, http.Header{"Content-Type": {"application/json"}}},
		},
		"Status": {func(ctx context.Context, c *client.Client) (any, error) { return c.Status(ctx) }, 200, `{"version":"1","uptime":2.5}`, asked{Line: "GET /v1/status", Header: http.Header{}}},
		"Backup": {
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Backup(ctx, "/backups/1") },
			200, `{"dir":"/backups/1"}`,
			asked{"POST /v1/backup", `{"dir":"/backups/1"}`, http.Header{"Content-Type": {"application/json"}}},
		},
		"Reload": {func(ctx context.Context, c *client.Client) (any, error) { return c.Reload(ctx) }, 200, `{"changed":["p"]}`, asked{Line: "POST /v1/reload", Header: http.Header{}}},
	}
}

// TestRequests holds what each call asks against the API.
func TestRequests(t *testing.T) {
	t.Parallel()
	all := jobRequests()
	maps.Copy(all, traceRequests())
	maps.Copy(all, manyRequests())
	maps.Copy(all, otherRequests())
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got asked
			caller := scripted(t, client.Config{Token: "secret"}, func(w http.ResponseWriter, r *http.Request) {
				got = note(r)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			})
			if _, err := c.call(t.Context(), caller); err != nil {
				t.Fatal(err)
			}
			c.want.Header["Authorization"] = []string{"Bearer secret"}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("the request differs (-want +got):\n%s", d)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"/v1/jobs/01J": `{"id":"01J","pool":"p","task":"t","state":"dead","attempts":2,"crashes":1,"outcome":"crashed","reason":"quarantined",
			"error":"it died","waited":0.5,"ran":1.25,"worker":"w1","peak_memory":7,"ended":"2026-11-21T13:00:00.5Z",
			"history":[{"number":1,"outcome":"failed","ran":2},{"number":2,"outcome":"crashed","exit_code":3}],
			"lines":[{"time":"2026-11-21T13:00:00Z","level":8,"stream":"stderr","text":"help"}],
			"failure":{"outcome":"crashed","task":"t","message":"gone","exit_code":3,"detail":"stack"},"payload_base64":"eHk="}`,
		"/v1/pools/p": `{"name":"p","wait_p50":0.001,"start_p50":2,"jobs":[{"priority":"high","waiting":4}],"outcomes":{"ok":5}}`,
		"/v1/status":  `{"version":"1","uptime":2.5,"store":{"kind":"embedded"},"queue":{"enqueued":4}}`,
	}
	c := scripted(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, texts[r.URL.Path]) })
	i, err := c.Get(t.Context(), "01J")
	if err != nil {
		t.Fatal(err)
	}
	var end *job.EndError
	if !errors.As(i.Err, &end) || end.Task == nil || end.Task.ExitCode != 3 || end.Outcome != bullpen.Crashed || end.Reason != job.Quarantined {
		t.Errorf("Err() = %#v", i.Err)
	}
	if i.Stats != (bullpen.Stats{Waited: 500 * time.Millisecond, Ran: 1250 * time.Millisecond, Worker: "w1", PeakMemory: 7}) {
		t.Errorf("Stats = %+v", i.Stats)
	}
	if len(i.History) != 2 || i.History[0].ExitCode != -1 || i.History[0].Ran != 2*time.Second || i.History[1].Outcome != bullpen.Crashed {
		t.Errorf("History = %+v", i.History)
	}
	if len(i.Lines) != 1 || i.Lines[0].Text != "help" || i.Lines[0].Level != 8 || string(i.Payload) != "xy" {
		t.Errorf("Info = %+v", i)
	}
	p, err := c.Pool(t.Context(), "p")
	if err != nil || p.WaitP50 != time.Millisecond || p.StartP50 != 2*time.Second || len(p.Jobs) == 0 || p.Jobs[0].Waiting != 4 || p.Outcomes["ok"] != 5 || p.Raw == nil {
		t.Errorf("Pool() = %+v, %v", p, err)
	}
	s, err := c.Status(t.Context())
	if err != nil || s.Uptime != 2500*time.Millisecond || s.Store.Kind != "embedded" || !strings.Contains(string(s.Raw), "enqueued") {
		t.Errorf("Status() = %+v, %v", s, err)
	}
}

func TestPagesAreReadOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := scripted(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, map[string]string{
			"":  `{"jobs":[{"id":"a"},{"id":"b"}],"next":"1"}`,
			"1": `{"jobs":[],"next":"2"}`,
			"2": `{"jobs":[{"id":"c"}]}`,
			"9": `{"jobs":[{"id":"d"}],"next":"9"}`,
		}[r.URL.Query().Get("after")])
	})
	var got strings.Builder
	for i, err := range c.Jobs(t.Context(), job.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(i.ID)
	}
	if got.String() != "abc" {
		t.Errorf("Jobs yielded %s, want abc", got.String())
	}
	for range c.Dead(t.Context(), job.Filter{}) {
		break // no more is read
	}
	var last error
	for _, last = range c.Jobs(t.Context(), job.Filter{After: "9"}) {
		continue
	}
	if !errors.Is(last, client.ErrAnswer) {
		t.Errorf("pages that go round in a circle end with %v, want ErrAnswer", last)
	}
}

func TestRunGoesOnWaiting(t *testing.T) {
	t.Parallel()
	var asked []string // by one request after the other
	c := scripted(t, client.Config{Wait: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		if len(asked) < 4 {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, refText)
			return
		}
		w.Header().Set("Bullpen-Ran", "0.5")
		_, _ = io.WriteString(w, "done")
	})
	ref, res, err := c.Run(t.Context(), job.Job{Queue: "p"})
	if err != nil || ref.ID != "01J" || ref.State != job.Done || string(res.Payload) != "done" || res.Stats.Ran != 500*time.Millisecond {
		t.Errorf("Run() = %+v, %+v, %v", ref, res, err)
	}
	wait := "GET /v1/jobs/01J/result?wait=1s"
	if d := cmp.Diff([]string{"POST /v1/pools/p/jobs?wait=1s", wait, wait, wait}, asked); d != "" {
		t.Error(d)
	}
	asked = nil
	if _, err := c.Result(t.Context(), "01J"); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("Result() of a job that runs = %v, want ErrNotEnded", err)
	}
}
