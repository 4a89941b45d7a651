package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// members gives n jobs.
func members(n int, j job.Job) []job.Job {
	all := make([]job.Job, n)
	for i := range all {
		all[i] = j
		all[i].Payload = fmt.Appendf(nil, "%d", i)
	}
	return all
}

// callbacks is a handler that keeps what callbacks received.
type callbacks struct {
	mu   sync.Mutex
	said map[string][]bullpen.Task // by task; guarded by mu
}

func (c *callbacks) keep(t bullpen.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil {
		c.said = make(map[string][]bullpen.Task)
	}
	c.said[t.Name] = append(c.said[t.Name], t)
}

func (c *callbacks) of(name string) []bullpen.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said[name]
}

func ended(t *testing.T, q *Queue, id string) job.BatchInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	i, err := q.WaitBatch(ctx, id)
	if err != nil {
		now, err2 := q.GetBatch(t.Context(), id)
		t.Fatalf("WaitBatch: %v; it is %+v, %v", err, now, err2)
	}
	return i
}

func TestBatch(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{Retry: job.Retry{Attempts: 1}})
	var said callbacks
	workOn(t, q, newTeam(4, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		if task.Name != "member" {
			said.keep(task)
			return nil, nil
		}
		if d := AttemptOf(task); d.Batch == "" || string(task.Payload) != fmt.Sprint(d.Index) {
			t.Errorf("member %s received %+v", task.Payload, d)
		}
		if len(task.Payload) == 1 {
			return nil, errors.New("it went wrong")
		}
		return nil, nil
	}), WorkConfig{})
	i, err := q.EnqueueBatch(t.Context(), job.Batch{
		Then: &job.Job{Name: "then", Meta: map[string]string{"k": "v"}}, Failed: &job.Job{Name: "failed", Payload: []byte("own")}, Meta: map[string]string{"a": "b"},
	}, members(100, job.Job{Name: "member"}))
	if err != nil {
		t.Fatal(err)
	}
	i = ended(t, q, i.ID)
	if i.State != job.BatchDone || i.Total != 100 || i.Ended != 100 || i.OK != 90 || i.Failed != 10 || i.Meta["a"] != "b" || i.EndedAt.IsZero() {
		t.Errorf("the batch is %+v", i)
	}
	for _, id := range []string{i.ThenID, i.FailedID} {
		if _, err := q.Wait(t.Context(), id); err != nil {
			t.Errorf("callback %q: %v", id, err)
		}
	}
	then, failed := said.of("then"), said.of("failed")
	if len(then) != 1 || len(failed) != 1 || string(failed[0].Payload) != "own" {
		t.Fatalf("callbacks: %+v and %+v", then, failed)
	}
	if m := then[0].Meta; m["k"] != "v" || m["bullpen.batch"] != i.ID || m["bullpen.total"] != "100" || m["bullpen.ok"] != "90" || m["bullpen.failed"] != "10" {
		t.Errorf("the callback has %v", m)
	}
	var report struct {
		Batch, First_failed     string
		Total, OK, Failed, Lost int
	}
	if err := json.Unmarshal(then[0].Payload, &report); err != nil || report.Batch != i.ID || report.OK != 90 || report.First_failed != i.FirstFailed {
		t.Errorf("the callback got %s, %v", then[0].Payload, err)
	}
	if info, err := q.GetDead(t.Context(), i.FirstFailed); err != nil || info.Batch != i.ID || info.Name != "member" {
		t.Errorf("the first that failed is %+v, %v", info, err)
	}
	if d := AttemptOf(then[0]); d.Batch != i.ID || d.Index != -1 {
		t.Errorf("the callback received %+v", d)
	}
}

// TestBatchOfChains has members that are chains: each counts when its last job has
// ended.
func TestBatchOfChains(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{Retry: job.Retry{Attempts: 1}})
	var last atomic.Int32
	workOn(t, q, newTeam(2, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
		if task.Name == "b" && task.Payload[0] == '1' {
			return nil, errors.New("it went wrong")
		}
		if task.Name == "c" {
			last.Add(1)
		}
		return appends(ctx, task)
	}), WorkConfig{})
	i, err := q.EnqueueBatch(t.Context(), job.Batch{Failed: &job.Job{Name: "x"}}, members(5, job.Job{Name: "a", Then: []job.Job{{Name: "b"}, {Name: "c"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if i = ended(t, q, i.ID); i.OK != 4 || i.Failed != 1 || last.Load() != 4 {
		t.Errorf("%d chains have ended, the batch is %+v", last.Load(), i)
	}
	if info, err := q.Get(t.Context(), i.FirstFailed); err != nil || info.Name != "b" || info.Index != 1 {
		t.Errorf("the first that failed is %+v, %v", info, err)
	}
}

func TestBatchOfNothing(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	i, err := q.EnqueueBatch(t.Context(), job.Batch{Then: &job.Job{Name: "then"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if i = ended(t, q, i.ID); i.State != job.BatchDone || i.ThenID == "" {
		t.Errorf("the batch is %+v", i)
	}
	if info, err := q.Get(t.Context(), i.ThenID); err != nil || info.State != job.Queued {
		t.Errorf("the callback is %+v, %v", info, err)
	}
}

// TestOpenBatch adds members in pieces, some of them twice and some too late.
func TestOpenBatch(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	var runs atomic.Int32
	workOn(t, q, newTeam(2, func(context.Context, bullpen.Task) ([]byte, error) {
		runs.Add(1)
		return nil, nil
	}), WorkConfig{})
	ctx := t.Context()
	b, err := q.OpenBatch(ctx, job.Batch{Key: "b"})
	if err != nil || b.State != job.BatchOpen || b.Existing {
		t.Fatalf("opened as %+v, %v", b, err)
	}
	if again, err := q.OpenBatch(ctx, job.Batch{Key: "b"}); err != nil || again.ID != b.ID || !again.Existing {
		t.Errorf("opened again as %+v, %v, want %s", again, err, b.ID)
	}
	all := members(30, job.Job{})
	for _, p := range []record.Span{{From: 20, To: 30}, {From: 0, To: 5}, {From: 0, To: 10}} {
		refs, err := q.AddToBatch(ctx, b.ID, p.From, all[p.From:p.To])
		if err != nil || len(refs) != p.To-p.From {
			t.Fatalf("added %v: %v, %v", p, refs, err)
		}
		if p.To == 10 && (!refs[4].Existing || refs[5].Existing) {
			t.Errorf("added again as %+v", refs)
		}
	}
	_, err = q.SealBatch(ctx, b.ID, 30)
	if !errors.Is(err, job.ErrIncomplete) || !strings.Contains(err.Error(), "10 to 19") {
		t.Errorf("sealed with members missing: %v", err)
	}
	if _, err := q.SealBatch(ctx, b.ID, 10); !errors.Is(err, job.ErrIncomplete) {
		t.Errorf("sealed with members too many: %v", err)
	}
	if _, err = q.AddToBatch(ctx, b.ID, 10, all[10:20]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := q.SealBatch(ctx, b.ID, 30); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.SealBatch(ctx, b.ID, 31); !errors.Is(err, job.ErrEnded) {
		t.Errorf("sealed with another total: %v", err)
	}
	if _, err := q.AddToBatch(ctx, b.ID, 30, all[:1]); !errors.Is(err, job.ErrEnded) {
		t.Errorf("added to a batch that is sealed: %v", err)
	}
	if i := ended(t, q, b.ID); i.OK != 30 || runs.Load() != 30 {
		t.Errorf("%d ran, the batch is %+v", runs.Load(), i)
	}
	// It is counted after it is stored that it has ended.
	s := q.Stats()
	for end := time.Now().Add(20 * time.Second); (s.BatchesEnded == 0 || s.BatchesOpen > 0) && time.Now().Before(end); s = q.Stats() {
		<-time.After(time.Millisecond)
	}
	if s.Batches != 1 || s.BatchesEnded != 1 || s.BatchesOpen != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestCancelBatch(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	var said callbacks
	started := make(chan struct{}, 100)
	stop := workOn(t, q, newTeam(2, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
		if task.Name != "" {
			said.keep(task)
			return nil, nil
		}
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}), WorkConfig{})
	ctx := t.Context()
	b, err := q.OpenBatch(ctx, job.Batch{Then: &job.Job{Name: "then"}, Failed: &job.Job{Name: "failed"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.AddToBatch(ctx, b.ID, 10, members(300, job.Job{})); err != nil {
		t.Fatal(err)
	}
	<-started
	if i, err := q.CancelBatch(ctx, b.ID); err != nil || i.State != job.BatchCanceled {
		t.Fatalf("canceled: %+v, %v", i, err)
	}
	i := ended(t, q, b.ID)
	if i.State != job.BatchCanceled || i.Canceled != 310 || i.Total != 310 || i.EndedAt.IsZero() || i.FailedID != "" {
		t.Errorf("the batch is %+v", i)
	}
	if _, err := q.Wait(ctx, i.ThenID); err != nil || len(said.of("then")) != 1 || len(said.of("failed")) != 0 {
		t.Errorf("callbacks: %v, %+v", err, said.said)
	}
	if _, err := q.CancelBatch(ctx, b.ID); !errors.Is(err, job.ErrEnded) {
		t.Errorf("canceled again: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestBatchFaults(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{MaxPayload: 1000})
	ctx := t.Context()
	_, err := q.EnqueueBatch(ctx, job.Batch{
		Key: strings.Repeat("k", 2000), Then: &job.Job{Key: "x"}, Failed: &job.Job{Delay: -1}, Meta: map[string]string{"bullpen.x": ""},
	}, nil)
	for _, says := range []string{"Key has 2000 bytes", "Then has a key", "Failed: ", "Delay is -1ns", "keys that begin with"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q too", err, says)
		}
	}
	if _, err := q.OpenBatch(ctx, job.Batch{Then: &job.Job{Payload: make([]byte, 600)}, Failed: &job.Job{Payload: make([]byte, 600)}}); err == nil {
		t.Error("callbacks that are too large were taken")
	}
	_, err = q.EnqueueBatch(ctx, job.Batch{}, []job.Job{{}, {Key: "x"}, {Delay: -1}})
	if err == nil || !strings.Contains(err.Error(), "job 1: it has a key") || !strings.Contains(err.Error(), "job 2: ") {
		t.Errorf("bad members: %v", err)
	}
	if _, err := q.AddToBatch(ctx, newID(), job.MostMembers, []job.Job{{}}); err == nil || errors.Is(err, job.ErrNotFound) {
		t.Errorf("a member too many: %v", err)
	}
	for what, err := range map[string]error{
		"get":    second(q.GetBatch(ctx, newID())),
		"get x":  second(q.GetBatch(ctx, "x")),
		"wait":   second(q.WaitBatch(ctx, newID())),
		"cancel": second(q.CancelBatch(ctx, newID())),
		"seal":   second(q.SealBatch(ctx, newID(), 1)),
		"add":    second(q.AddToBatch(ctx, newID(), 0, []job.Job{{}})),
	} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s of a batch that is not there: %v", what, err)
		}
	}
	if _, err := q.SealBatch(ctx, newID(), -1); err == nil {
		t.Error("sealed with a negative total")
	}
}

func TestListBatches(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	ctx := t.Context()
	var ids []string
	for i := range 5 {
		b, err := q.OpenBatch(ctx, job.Batch{})
		if err == nil && i%2 == 0 {
			b, err = q.SealBatch(ctx, b.ID, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ID)
		if i%2 == 0 {
			ended(t, q, b.ID)
		}
	}
	for _, c := range []struct {
		state  job.BatchState
		newest bool
		want   []string
	}{
		{job.BatchOpen, false, []string{ids[1], ids[3]}}, {job.BatchDone, false, []string{ids[0], ids[2], ids[4]}}, {job.BatchRunning, false, nil}, {job.BatchCanceled, false, nil},
		{job.BatchOpen, true, []string{ids[3], ids[1]}}, {job.BatchDone, true, []string{ids[4], ids[2], ids[0]}}, {job.BatchRunning, true, nil},
	} {
		state, want := c.state, c.want
		var got []string
		for f := (job.BatchFilter{States: []job.BatchState{state}, Newest: c.newest, Limit: 1}); ; {
			p, err := q.ListBatches(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range p.Batches {
				got = append(got, b.ID)
			}
			if f.After = p.Next; f.After == 0 {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: %v, want %v", state, got, want)
		}
	}
}

// TestListBatchesOfSize ends pages by their bytes: callbacks may be large.
func TestListBatchesOfSize(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	ctx := t.Context()
	for range 12 {
		if _, err := q.OpenBatch(ctx, job.Batch{Then: &job.Job{Queue: "main", Payload: make([]byte, 500_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, newest := range []bool{false, true} {
		var sizes []int
		for f := (job.BatchFilter{Newest: newest}); ; {
			p, err := q.ListBatches(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(p.Batches))
			if f.After = p.Next; f.After == 0 {
				break
			}
		}
		sum := 0
		for _, n := range sizes {
			if sum += n; n > 9 {
				t.Errorf("a page has %d batches of half a megabyte, want about 4 MB (newest %v)", n, newest)
			}
		}
		if sum != 12 {
			t.Errorf("the pages have %v batches, want 12 (newest %v)", sizes, newest)
		}
	}
}
