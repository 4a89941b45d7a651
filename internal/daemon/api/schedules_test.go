package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	config "github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/job"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.daemon
	const body = `{"pool":"kept","cron":"30 2 * * *","zone":"Europe/Berlin","overlap":"forbid","missed":"all",` +
		`"job":{"payload":"daily","meta":{"k":"v"},"timeout":90,"memory":"64MiB","attempts":3,"backoff":"2s","idempotent":true,"compensate":"undo","bury":"tell","group":"acme","priority":"low"}}`
	got := decode[Schedule](t, s.want(http.StatusOK, "PUT", "/v1/schedules/reports.nightly", body))
	want := Schedule{
		Name: "reports.nightly", Pool: "kept", Cron: "30 2 * * *", Zone: "Europe/Berlin", Missed: "all", Overlap: "forbid",
		Job: &ScheduleJob{
			Payload: "daily", Task: "echo", Timeout: 90, Memory: 64 << 20, Attempts: 3, Backoff: 2, Idempotent: true, Compensate: "undo", Bury: "tell", Group: "acme", Priority: "low",
		}, Next: got.Next,
	}
	if got.Job == nil || got.Job.Meta["k"] != "v" {
		t.Fatalf("the job is %+v", got.Job)
	}
	got.Job.Meta = nil
	if fmt.Sprintf("%+v", *got.Job) != fmt.Sprintf("%+v", *want.Job) {
		t.Errorf("the job is %+v\nwant %+v", *got.Job, *want.Job)
	}
	got.Job, want.Job = nil, nil
	if len(got.Upcoming) != 3 || !strings.Contains(got.Upcoming[2], "T02:30:00+") {
		t.Errorf("it comes up at %v", got.Upcoming)
	}
	got.Upcoming = nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.Next == "" {
		t.Errorf("it is %+v\nwant %+v", got, want)
	}
	binary := base64.StdEncoding.EncodeToString([]byte{0xff, 0})
	every := decode[Schedule](t, s.want(http.StatusOK, "PUT", "/v1/schedules/a", `{"pool":"main","every":1.5,"job":{"payload_base64":"`+binary+`"}}`))
	if every.Every != 1.5 || every.Job == nil || every.Job.PayloadBase64 != binary || every.Missed != "once" || every.Overlap != "allow" {
		t.Errorf("it is %+v %+v", every, every.Job)
	}
	all := decode[schedulesAnswer](t, s.want(http.StatusOK, "GET", "/v1/schedules", "")).Schedules
	if len(all) != 2 || all[0].Job == nil || all[1].Job == nil || all[0].Name != "a" || all[0].Job.PayloadBase64 != "" || all[1].Job.Payload != "" || all[1].Job.Task != "echo" {
		t.Errorf("the list is %+v", all)
	}
	if p := decode[Schedule](t, s.want(http.StatusOK, "POST", "/v1/schedules/a/pause", "")); !p.Paused || p.Next != "" {
		t.Errorf("paused it is %+v", p)
	}
	ref := decode[Ref](t, s.want(http.StatusAccepted, "POST", "/v1/schedules/a/run", ""))
	if ref.Pool != "main" || ref.ID == "" {
		t.Errorf("its job is %+v", ref)
	}
	if _, err := h.queue.Wait(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
	job := decode[Job](t, s.want(http.StatusOK, "GET", "/v1/jobs/"+ref.ID, ""))
	if job.Schedule != "a" || job.Tick == "" {
		t.Errorf("its job is shown as %+v", job)
	}
	if p := decode[Schedule](t, s.want(http.StatusOK, "POST", "/v1/schedules/a/resume", "")); p.Paused || p.LastJob != ref.ID || p.LastState != "done" {
		t.Errorf("resumed it is %+v", p)
	}
	s.want(http.StatusNoContent, "DELETE", "/v1/schedules/a", "")
	isProblem(t, s.do("GET", "/v1/schedules/a", ""), problem.NotFound)
	isProblem(t, s.do("DELETE", "/v1/schedules/a", ""), problem.NotFound)
}

// want asks, and wants an answer of a status.
func (s *site) want(status int, method, path, body string) reply {
	s.t.Helper()
	r := s.do(method, path, body)
	if r.status != status {
		s.t.Fatalf("%s %s answers %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

func TestSchedulesRefuse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.daemon
	for body, words := range map[string][]string{
		``:   {"pool is missing"},
		`[]`: {"is not a JSON object"},
		`{"pool":"main","cron":"0 0 31 2 *","zone":"Mars/Olympus"}`:                  {"Mars/Olympus"},
		`{"pool":"main","cron":"* * * *"}`:                                           {"Cron"},
		`{"pool":"main"}`:                                                            {"both empty"},
		`{"pool":"main","every":0.001}`:                                              {"100ms"},
		`{"pool":"main","every":"soon"}`:                                             {"every is"},
		`{"pool":"main","cron":"* * * * *","missed":"some","overlap":"no","kron":1}`: {"once, skip or all", "allow or forbid", "kron"},
		`{"pool":"main","cron":"* * * * *","job":{"key":"k","delay":1}}`:             {"leave them out"},
		`{"pool":"main","cron":"* * * * *","job":{"prio":"high","at":1}}`:            {"prio", "at is"},
		`{"pool":"main","cron":"* * * * *","job":"x"}`:                               {"job"},
		`{"pool":"Main","cron":"* * * * *"}`:                                         {"pool is"},
	} {
		p := isProblem(t, s.do("PUT", "/v1/schedules/a", body), problem.BadRequest)
		for _, w := range words {
			if !strings.Contains(p.Detail+strings.Join(p.Faults, "\n"), w) {
				t.Errorf("%s: %+v, want %q", body, p, w)
			}
		}
	}
	isProblem(t, s.do("PUT", "/v1/schedules/No%20Name", `{"pool":"main","every":1}`), problem.BadRequest)
	isProblem(t, s.do("PUT", "/v1/schedules/a", `{"pool":"none","every":1}`), problem.UnknownPool)
	isProblem(t, s.do("PUT", "/v1/schedules/a", `{"pool":"main","every":1,"job":{"payload":"`+strings.Repeat("x", defaultPayload+1)+`"}}`), problem.TooLarge)
	mine := job.Schedule{Name: "mine", Every: time.Hour, Overlap: job.OverlapForbid, Origin: config.OriginConfig, Job: job.Job{Queue: "far", Name: "echo"}}
	if _, err := h.queue.PutSchedule(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	isProblem(t, s.do("PUT", "/v1/schedules/mine", `{"pool":"main","every":1}`), problem.Managed)
	isProblem(t, s.do("DELETE", "/v1/schedules/mine", ""), problem.Managed)
	s.want(http.StatusOK, "POST", "/v1/schedules/mine/pause", "")
	s.want(http.StatusAccepted, "POST", "/v1/schedules/mine/run", "")
	isProblem(t, s.do("POST", "/v1/schedules/mine/run", ""), problem.Overlap)
	for _, verb := range []string{"pause", "resume", "run"} {
		isProblem(t, s.do("POST", "/v1/schedules/none/"+verb, ""), problem.NotFound)
	}
	h.end()
	isProblem(t, s.do("PUT", "/v1/schedules/a", `{"pool":"main","every":1}`), problem.Closed)
	isProblem(t, s.do("POST", "/v1/schedules/mine/run", ""), problem.Closed)
}

// TestClientSchedules has the Go client put a schedule and get it back.
func TestClientSchedules(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.connect()
	want := job.Schedule{
		Name: "a.b", Every: 90 * time.Minute, Missed: job.MissedSkip, Overlap: job.OverlapForbid,
		Job: job.Job{
			Queue: "far", Name: "echo", Payload: []byte("\xff\x00"), Meta: map[string]string{"k": "v"}, Priority: job.High,
			Limits:     bullpen.Limits{Timeout: 1500 * time.Millisecond, Memory: 1 << 30, CPU: 1.5, Output: 1 << 20},
			Retry:      job.Retry{Attempts: 2, Crashes: 3, Backoff: time.Second, MaxBackoff: time.Minute},
			Idempotent: true, Compensate: "undo", Bury: "tell", Group: "acme",
		},
	}
	info, err := c.PutSchedule(t.Context(), want)
	if err != nil || fmt.Sprintf("%+v", info.Schedule) != fmt.Sprintf("%+v", want) || info.Next.IsZero() {
		t.Errorf("put it is %+v, %v\nwant %+v", info, err, want)
	}
	ref, err := c.RunSchedule(t.Context(), "a.b")
	if err != nil || ref.ID == "" {
		t.Errorf("run it gives %+v, %v", ref, err)
	}
	if _, err := c.RunSchedule(t.Context(), "a.b"); !errors.Is(err, job.ErrOverlap) {
		t.Errorf("run it again gives %v", err)
	}
	if j, err := c.Get(t.Context(), ref.ID); err != nil || j.Queue != "far" || j.Schedule != "a.b" || time.Since(j.Tick) > time.Minute {
		t.Errorf("its job is %+v, %v", j, err)
	}
	if all, err := c.Schedules(t.Context()); err != nil || len(all) != 1 || all[0].LastJob != ref.ID || len(all[0].Job.Payload) != 0 {
		t.Errorf("the list is %+v, %v", all, err)
	}
	if info, err = c.PauseSchedule(t.Context(), "a.b"); err != nil || !info.Paused {
		t.Errorf("paused it is %+v, %v", info, err)
	}
	if info, err = c.ResumeSchedule(t.Context(), "a.b"); err != nil || info.Paused {
		t.Errorf("resumed it is %+v, %v", info, err)
	}
	if err := c.RemoveSchedule(t.Context(), "a.b"); err != nil {
		t.Error(err)
	}
	if _, err := c.Schedule(t.Context(), "a.b"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("removed it is %v", err)
	}
	if _, err := c.PutSchedule(t.Context(), job.Schedule{Name: "a", Every: 1, Job: job.Job{Queue: "main", Delay: 1}}); err == nil {
		t.Error("a job with a delay is taken")
	}
	var e *client.Error
	if _, err := c.PutSchedule(t.Context(), job.Schedule{Name: "a", Cron: "60 * * * *", Job: job.Job{Queue: "main"}}); !errors.As(err, &e) || len(e.Faults) == 0 {
		t.Errorf("a bad rule gives %v", err)
	}
}
