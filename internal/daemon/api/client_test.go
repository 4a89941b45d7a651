package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// connect returns a client of a site.
func (s *site) connect() *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{URL: s.http.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// TestClientRuns has the Go client hand in work and learn how it ends.
func TestClientRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.connect()
	ref, result, err := c.Run(t.Context(), job.Job{Queue: "main", Name: "meta", Payload: []byte("x"), Meta: map[string]string{"a b": "\x00&=%ü"}})
	if err != nil || ref.ID == "" || string(result.Payload) != `a b="\x00&=%ü"` {
		t.Errorf("a job gives %+v %q, %v", ref, result.Payload, err)
	}
	_, _, err = c.Run(t.Context(), job.Job{Queue: "main", Name: "fail"})
	var end *job.EndError
	if !errors.As(err, &end) || end.Outcome != bullpen.Failed || end.Reason != job.Final || end.Attempts != 1 || end.Task == nil || end.Task.Message != "no <such> file" {
		t.Errorf("one that fails gives %v, %+v", err, end)
	}
	for task, want := range map[string]error{"nope": bullpen.ErrUnknownTask, "echo": nil} {
		r, err := c.RunEphemeral(t.Context(), "main", bullpen.Task{Name: task, Payload: []byte("y")})
		if !errors.Is(err, want) || err == nil && string(r.Payload) != "y" {
			t.Errorf("an ephemeral task %s gives %q, %v", task, r.Payload, err)
		}
	}
	if _, err := c.RunEphemeral(t.Context(), "kept", bullpen.Task{Name: "echo"}); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a pool without ephemeral tasks gives %v", err)
	}
	seen := &watched{news: make(chan struct{}, 1)}
	if _, err := c.RunEphemeral(t.Context(), "main", bullpen.Task{Name: "talk", Observer: seen}); err != nil || len(seen.lines) != 3 || seen.progress == nil {
		t.Errorf("one that is watched says %d lines, %v", len(seen.lines), err)
	}
}

// TestClientLooks has the Go client look at jobs, follow one and look after the
// dead.
func TestClientLooks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.connect()
	jobs := make([]job.Job, 700)
	for i := range jobs {
		jobs[i] = job.Job{Queue: "main", Payload: fmt.Append(nil, i, "\xff"), Delay: time.Hour, Key: fmt.Sprint("k", i), Limits: bullpen.Limits{Timeout: 1500 * time.Millisecond}, Deadline: time.Now().Add(90 * time.Minute)}
	}
	refs, err := c.EnqueueAll(t.Context(), jobs)
	if err != nil || len(refs) != len(jobs) || refs[699].State != job.Scheduled {
		t.Fatalf("%d of %d were enqueued, %v", len(refs), len(jobs), err)
	}
	n := 0
	for info, err := range c.Jobs(t.Context(), job.Filter{States: []job.State{job.Scheduled}, Limit: 300}) {
		if err != nil || info.Queue != "main" || info.At.IsZero() {
			t.Fatalf("the list has %+v, %v", info, err)
		}
		n++
	}
	if n != len(jobs) {
		t.Errorf("the list has %d jobs", n)
	}
	if b, err := c.Payload(t.Context(), refs[7].ID); err != nil || string(b) != "7\xff" {
		t.Errorf("a payload is %q, %v", b, err)
	}
	if info, err := c.Cancel(t.Context(), refs[7].ID); err != nil || info.State != job.Canceled {
		t.Errorf("canceling gives %+v, %v", info, err)
	}
	var lines []string
	talk := s.submit("task=talk", "me")
	for e, err := range c.Follow(t.Context(), talk, "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == client.Logged {
			lines = append(lines, e.Line.Text)
		}
	}
	if len(lines) != 3 || lines[2] != "line 2\nof me" {
		t.Errorf("the lines are %q", lines)
	}
	dead := s.dead("evidence")
	if info, err := c.GetDead(t.Context(), dead); err != nil || string(info.Payload) != "evidence" || info.Err == nil || len(info.History) == 0 || info.History[0].Outcome != bullpen.Failed {
		t.Errorf("a dead job is %+v, %v", info, err)
	}
	if swept, err := c.RetryDeadAll(t.Context(), job.Filter{Name: "fail"}); err != nil || swept.Count != 1 || swept.More {
		t.Errorf("trying the dead again gives %+v, %v", swept, err)
	}
	s.clientOfPools(t.Context(), c)
}

func (s *site) clientOfPools(ctx context.Context, c *client.Client) {
	s.t.Helper()
	four := 4
	if p, err := c.Scale(ctx, "main", client.Scale{Max: &four}); err != nil || p.StartP50 != time.Second/2 {
		s.t.Errorf("scaling gives %+v, %v", p, err)
	}
	if p, err := c.Pause(ctx, "far"); err != nil || !p.Paused {
		s.t.Errorf("pausing gives %+v, %v", p, err)
	}
	if all, err := c.Pools(ctx); err != nil || len(all) != 3 {
		s.t.Errorf("the pools are %+v, %v", all, err)
	}
	if changed, err := c.Reload(ctx); err != nil || len(changed) != 1 {
		s.t.Errorf("reloading gives %v, %v", changed, err)
	}
	if status, err := c.Status(ctx); err != nil || status.Uptime < time.Minute || status.Store.Kind != "memory" {
		s.t.Errorf("the status is %+v, %v", status, err)
	}
}

// TestClientChains has the Go client make a chain.
func TestClientChains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.connect()
	ctx := t.Context()
	ref, err := c.EnqueueChain(ctx, job.Job{Queue: "main", Name: "echo", Payload: []byte("\xffx")}, job.Job{Name: "echo", Queue: "kept"}, job.Job{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.WaitChain(ctx, ref.ID); err != nil || string(r.Payload) != "\xffx" {
		t.Errorf("the chain gives %q, %v", r.Payload, err)
	}
	if info, err := c.Get(ctx, ref.ID); err != nil || info.Link != 1 || info.Links != 3 || info.Next == "" {
		t.Errorf("its first job is %+v, %v", info, err)
	}
	if _, err := c.Enqueue(ctx, job.Job{Queue: "main", Then: []job.Job{{}}}); err == nil {
		t.Error("Enqueue took a chain")
	}
}

// TestClientBatches has the Go client make batches.
func TestClientBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.connect()
	ctx := t.Context()
	jobs := make([]job.Job, 1200)
	for i := range jobs {
		jobs[i] = job.Job{Queue: "main", Name: []string{"echo", "fail"}[i%100/99], Payload: fmt.Append(nil, i)}
	}
	b := job.Batch{Key: "b", Then: &job.Job{Queue: "main", Name: "echo"}, Failed: &job.Job{Name: "echo", Queue: "kept"}, Meta: map[string]string{"a": "b"}}
	i, err := c.EnqueueBatch(ctx, b, jobs)
	if err != nil || i.Total != 1200 {
		t.Fatalf("the batch is %+v, %v", i, err)
	}
	if i, err = c.WaitBatch(ctx, i.ID); err != nil || i.OK != 1188 || i.Failed != 12 || i.ThenID == "" || i.FailedID == "" || i.Meta["a"] != "b" {
		t.Fatalf("the batch is %+v, %v", i, err)
	}
	if again, err := c.EnqueueBatch(ctx, b, jobs); err != nil || again.ID != i.ID || !again.Existing {
		t.Errorf("again it is %+v, %v", again, err)
	}
	n, dead := 0, 0
	for info, err := range c.BatchJobs(ctx, i.ID) {
		if err != nil || info.Batch != i.ID || info.Index != n {
			t.Fatalf("member %d is %+v, %v", n, info, err)
		}
		if n++; info.State == job.Dead {
			dead++
		}
	}
	if n != 1200 || dead != 12 {
		t.Errorf("there are %d members, %d of them dead", n, dead)
	}
	if p, err := c.ListBatches(ctx, job.BatchFilter{States: []job.BatchState{job.BatchDone}, Newest: true, Limit: 5}); err != nil || len(p.Batches) != 1 {
		t.Errorf("the batches are %+v, %v", p, err)
	}
	s.clientOfOpenBatches(ctx, c)
}

func (s *site) clientOfOpenBatches(ctx context.Context, c *client.Client) {
	t := s.t
	t.Helper()
	open, err := c.OpenBatch(ctx, job.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddToBatch(ctx, open.ID, 1, []job.Job{{Queue: "main", Name: "echo", Delay: time.Hour}}); err != nil {
		t.Error(err)
	}
	if _, err := c.SealBatch(ctx, open.ID, 2); err == nil {
		t.Error("a batch with a gap was sealed")
	}
	if _, err := c.CancelBatch(ctx, open.ID); err != nil {
		t.Error(err)
	}
	if i, err := c.WaitBatch(ctx, open.ID); err != nil || i.Canceled != 2 {
		t.Errorf("canceled it is %+v, %v", i, err)
	}
}
