package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// fullJob says something in every field.
func fullJob() job.Job {
	return job.Job{
		Queue: "mail", Name: "send", Payload: []byte("to whom\x00 it may concern"),
		Meta: map[string]string{"traceparent": "00-ab-cd-01", "empty": "", "": "no key"},
		Key:  "letter 1", Priority: job.High, Deadline: time.Now().Add(time.Hour),
		Limits: bullpen.Limits{Timeout: time.Minute, Memory: 1 << 30, CPU: 1.5, Output: 4096},
		Retry: job.Retry{
			Attempts: 7, Backoff: time.Millisecond, MaxBackoff: time.Second, Crashes: 2, Nodes: 4,
			On: []bullpen.Outcome{bullpen.Failed},
		},
		Idempotent: true, Compensate: "unsend",
	}
}

// near reports whether two times are the same to the precision of a record.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < time.Millisecond }

func testRoundTrip(f *fixture) {
	f.open(queue.Config{Node: "here"})
	j, before := fullJob(), time.Now()
	ref := f.enqueue(j)
	if ref.Existing || ref.State != job.Queued {
		f.t.Errorf("Enqueue = %+v, want a new job that is queued", ref)
	}
	i := f.get(ref.ID)
	if i.ID != ref.ID || i.Queue != j.Queue || i.Name != j.Name || i.Key != j.Key || i.Priority != j.Priority ||
		i.State != job.Queued || !bytes.Equal(i.Payload, j.Payload) || !maps.Equal(i.Meta, j.Meta) ||
		!near(i.Deadline, j.Deadline) || i.Compensate != j.Compensate || i.Parent != "" || i.Attempts != 0 || i.Err != nil {
		f.t.Errorf("Get of a job that waits = %+v, want all of %+v", i, j)
	}
	if i.Enqueued.Before(before.Add(-time.Millisecond)) || i.Enqueued.After(time.Now().Add(time.Millisecond)) {
		f.t.Errorf("Enqueued is %v, want a time since %v", i.Enqueued, before)
	}
	deadlines := make(chan time.Time, 1)
	c := newExecutor(2, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		d, _ := ctx.Deadline()
		deadlines <- d
		return append([]byte("sent "), t.Payload...), nil
	})
	f.work(f.Queue, c, queue.WorkConfig{Queue: j.Queue})
	r := f.good(ref.ID)
	if want := "sent " + string(j.Payload); string(r.Payload) != want || r.Stats.Worker != "executor" || r.Stats.PeakMemory != peakMemory {
		f.t.Errorf("Wait = %q, %+v, want %q from the executor", r.Payload, r.Stats, want)
	}
	if d := await(f, "the handler runs", deadlines); !near(d, j.Deadline) {
		f.t.Errorf("the handler has the deadline %v, want %v", d, j.Deadline)
	}
	t := f.numbered(c, ref.ID, 1)[0].task
	if t.ID != ref.ID || t.Name != j.Name || !bytes.Equal(t.Payload, j.Payload) || t.Limits != j.Limits {
		f.t.Errorf("the handler got %+v, want the id, name, payload and limits of %+v", t, j)
	}
	for k, v := range j.Meta {
		if got, ok := t.Meta[k]; !ok || got != v {
			f.t.Errorf("the handler got %q under %q of Meta, want %q", got, k, v)
		}
	}
	f.checkEnded(f.get(ref.ID), j, i.Enqueued, r)
}

// checkEnded looks at what is known of fullJob after its good end.
func (f *fixture) checkEnded(i *job.Info, j job.Job, enqueued time.Time, r bullpen.Result) {
	f.t.Helper()
	if i.State != job.Done || i.Outcome != bullpen.OK || i.Reason != "" || i.Err != nil || !bytes.Equal(i.Result, r.Payload) ||
		i.Attempts != 1 || i.Crashes != 0 || i.Node != "here" || i.Worker != "executor" || i.Stats != r.Stats {
		f.t.Errorf("Get of a job that is done = %+v, want its result and 1 attempt on node here", i)
	}
	if i.Queue != j.Queue || i.Name != j.Name || i.Key != j.Key || i.Priority != j.Priority || !near(i.Enqueued, enqueued) ||
		i.Compensate != j.Compensate || i.Ended.Before(enqueued.Add(-time.Millisecond)) {
		f.t.Errorf("Get of a job that is done = %+v, want what was known of it before", i)
	}
}

func testDefaults(f *fixture) {
	f.open(queue.Config{})
	f.staff(1, echo)
	ref, r, err := f.Run(f.ctx(), job.Job{})
	if err != nil || len(r.Payload) != 0 || ref.Attempts != 1 {
		f.t.Fatalf("Run of the zero job = %+v, %q, %v, want a good end after one attempt", ref, r.Payload, err)
	}
	i := f.get(ref.ID)
	if i.Queue != "default" || i.Priority != job.Normal || i.State != job.Done || i.Node == "" {
		f.t.Errorf("Get = %+v, want queue default, priority normal, state done and a node", i)
	}
	s, err := f.Status(f.ctx())
	if err != nil || s.Kind == "" || s.Durability == "" || s.Replicas < 1 {
		f.t.Errorf("Status = %+v, %v, want kind, durability and replicas", s, err)
	}
}

func testUnique(f *fixture) {
	f.open(queue.Config{})
	var mu sync.Mutex
	seen := map[string]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				ref, err := f.Enqueue(f.t.Context(), job.Job{Name: "x"})
				mu.Lock()
				if err != nil || seen[ref.ID] {
					f.t.Errorf("Enqueue = %+v, %v, want an id that no other has", ref, err)
				}
				seen[ref.ID] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if listed := f.list(job.Filter{States: inQueue}); len(listed) != 400 {
		f.t.Errorf("List gives %d jobs, want 400", len(listed))
	}
}

func testJobFaults(f *fixture) {
	f.open(queue.Config{MaxPayload: 100})
	bad := job.Job{
		Queue: "No Such.Name", Name: strings.Repeat("n", 300), Key: strings.Repeat("k", 2000), Payload: make([]byte, 101),
		Meta: map[string]string{"a": strings.Repeat("m", 20<<10)}, Priority: 9, Delay: -1, At: time.Now(),
		Limits: bullpen.Limits{Timeout: -1}, Retry: job.Retry{Attempts: -1, Backoff: -1, On: []bullpen.Outcome{99}},
	}
	words := []string{"Queue", "Name", "Key", "Payload", "Meta", "Priority", "Delay is", "Delay and At", "Timeout", "Attempts", "Backoff", "On"}
	check := func(what string, err error) {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				f.t.Errorf("%s of a job with all faults = %v, want an error that names %s", what, err, w)
			}
		}
	}
	ref, err := f.Enqueue(f.ctx(), bad)
	check("Enqueue", err)
	_, _, err = f.Run(f.ctx(), bad)
	check("Run", err)
	refs, err := f.EnqueueAll(f.ctx(), []job.Job{{Name: "good"}, bad, {Name: "good"}})
	check("EnqueueAll", err)
	if ref.ID != "" || len(refs) != 3 || refs[0].ID != "" || refs[1].ID != "" || refs[2].ID != "" {
		f.t.Errorf("Enqueue = %+v, EnqueueAll = %+v, want no ids", ref, refs)
	}
	if s, err := f.Status(f.ctx()); err != nil || s.Jobs.Messages != 0 || s.State.Messages != 0 || f.Stats().Enqueued != 0 {
		f.t.Errorf("after refused jobs: %+v, %+v, %v, want nothing stored", s, f.Stats(), err)
	}
	if _, err := f.Enqueue(f.ctx(), job.Job{Payload: make([]byte, 100)}); err != nil {
		f.t.Errorf("Enqueue with a payload of MaxPayload = %v, want nil", err)
	}
}

func testConfigFaults(f *fixture) {
	_, err := queue.Open(f.ctx(), queue.Config{
		Namespace: "A b", Lease: 1, KeyWindow: -1, MaxPayload: -1, Keep: job.Keep{Jobs: -1},
		Retry: job.Retry{Crashes: -1, On: []bullpen.Outcome{bullpen.OK}},
	})
	for _, w := range []string{"Store", "Namespace", "Lease", "KeyWindow", "MaxPayload", "Keep", "Crashes", "On"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			f.t.Errorf("Open with all faults = %v, want an error that names %s", err, w)
		}
	}
	f.open(queue.Config{})
	err = f.Work(f.ctx(), newExecutor(1, echo), queue.WorkConfig{Queue: "A b", Concurrency: -1})
	for _, w := range []string{"Queue", "Concurrency"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			f.t.Errorf("Work with all faults = %v, want an error that names %s", err, w)
		}
	}
	if err := f.Work(f.ctx(), nil, queue.WorkConfig{}); err == nil {
		f.t.Error("Work without an executor = nil, want an error")
	}
}

// unknown is an id that no job has.
const unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func testCallFaults(f *fixture) {
	f.open(queue.Config{})
	for _, id := range []string{unknown, "", "x", "*", unknown + ".>", strings.ToLower(unknown)} {
		calls := map[string]error{"Cancel": f.Cancel(f.ctx(), id), "RemoveDead": f.RemoveDead(f.ctx(), id)}
		_, calls["Get"] = f.Get(f.ctx(), id)
		_, calls["Wait"] = f.Wait(f.ctx(), id)
		_, calls["GetDead"] = f.GetDead(f.ctx(), id)
		_, calls["RetryDead"] = f.RetryDead(f.ctx(), id)
		for name, err := range calls {
			if !errors.Is(err, job.ErrNotFound) {
				f.t.Errorf("%s of %q = %v, want ErrNotFound", name, id, err)
			}
		}
	}
	for _, name := range []string{"", "A", "a.b", "*", ">"} {
		if err := errors.Join(f.Pause(f.ctx(), name)); err == nil {
			f.t.Errorf("Pause of %q = nil, want an error", name)
		}
		if _, err := f.Depth(f.ctx(), name); err == nil {
			f.t.Errorf("Depth of %q = nil, want an error", name)
		}
		if _, err := f.List(f.ctx(), job.Filter{Queue: name}); name != "" && err == nil {
			f.t.Errorf("List of %q = nil, want an error", name)
		}
	}
	ended, cancel := context.WithCancel(f.t.Context())
	cancel()
	if _, err := f.Wait(ended, f.enqueue(job.Job{}).ID); !errors.Is(err, context.Canceled) {
		f.t.Errorf("Wait with a context that has ended = %v, want its cause", err)
	}
}

// bulk is how many jobs EnqueueAll is given.
const bulk = 10_000

func testBulk(f *fixture) {
	f.open(queue.Config{})
	all := make([]job.Job, bulk)
	for i := range all {
		all[i] = job.Job{Name: "bulk", Payload: fmt.Append(nil, i)}
	}
	ids := f.enqueueAll(all)
	at := make(map[string]int, bulk)
	for i, id := range ids {
		if _, twice := at[id]; twice || id == "" {
			f.t.Fatalf("job %d has the id %q, which another has", i, id)
		}
		at[id] = i
	}
	if n := f.Stats().Enqueued; n != bulk {
		f.t.Errorf("Stats says %d were enqueued, want %d", n, bulk)
	}
	var mu sync.Mutex
	ran := make(map[string]string, bulk)
	f.staff(64, func(_ context.Context, t bullpen.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if was, twice := ran[t.ID]; twice {
			f.t.Errorf("job %s ran with %q and again with %q", t.ID, was, t.Payload)
		}
		ran[t.ID] = string(t.Payload)
		return nil, nil
	})
	f.eventually("all are recorded", func() bool { return f.Stats().Ended[bullpen.OK] == bulk })
	mu.Lock()
	defer mu.Unlock()
	for id, i := range at {
		if ran[id] != fmt.Sprint(i) {
			f.t.Fatalf("job %d, %s, ran with %q, want %q", i, id, ran[id], fmt.Sprint(i))
		}
	}
}

func testBulkKeys(f *fixture) {
	f.open(queue.Config{})
	all := make([]job.Job, 60)
	for i := range all {
		all[i] = job.Job{Name: "keyed", Key: fmt.Sprint("key ", i%20)}
	}
	ids := f.enqueueAll(all)
	for i, id := range ids {
		if id == "" || id != ids[i%20] {
			f.t.Errorf("job %d has the id %q, want %q of the first with its key", i, id, ids[i%20])
		}
	}
	if listed := f.list(job.Filter{States: inQueue}); len(listed) != 20 {
		f.t.Errorf("%d jobs are in the queue, want one for each of 20 keys", len(listed))
	}
}
