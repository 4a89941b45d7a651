package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// fails is a handler that fails for good, but not a job that is tried again.
func fails(_ context.Context, t bullpen.Task) ([]byte, error) {
	if queue.AttemptOf(t).Parent != "" {
		return t.Payload, nil
	}
	return nil, bullpen.Fail("no", false)
}

func (f *fixture) dead(filter job.Filter) []string {
	f.t.Helper()
	var ids []string
	for {
		p, err := f.ListDead(f.ctx(), filter)
		if err != nil {
			f.t.Fatalf("ListDead = %v", err)
		}
		for _, i := range p.Jobs {
			if i.State != job.Dead || i.Err == nil {
				f.t.Errorf("ListDead gives %+v, want dead jobs with their errors", i)
			}
			ids = append(ids, i.ID)
		}
		if p.Next == "" || len(ids) > 0 && len(ids) == filter.Limit {
			return ids
		}
		filter.After = p.Next
	}
}

func testDead(f *fixture) {
	f.open(queue.Config{})
	c := newExecutor(1, fails)
	f.work(f.Queue, c, queue.WorkConfig{Queue: "a"})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "b"})
	var ids []string
	for i := range 10 {
		j := job.Job{Queue: []string{"a", "b"}[i%2], Name: fmt.Sprint("n", i%5), Payload: fmt.Append(nil, i), Meta: map[string]string{"i": fmt.Sprint(i)}}
		ids = append(ids, f.enqueue(j).ID)
		f.bad(ids[i], bullpen.Failed, job.Final)
	}
	if got := f.dead(job.Filter{}); !slices.Equal(got, ids) {
		f.t.Errorf("ListDead gives %v, want %v in the order in which they died", got, ids)
	}
	if got := f.dead(job.Filter{Queue: "b"}); len(got) != 5 || got[0] != ids[1] {
		f.t.Errorf("ListDead of b gives %v, want its 5", got)
	}
	if got := f.dead(job.Filter{Name: "n3", Limit: 1}); len(got) != 1 || got[0] != ids[3] {
		f.t.Errorf("ListDead of n3 gives %v, want the first of 2", got)
	}
	f.reopen()
	if got := f.dead(job.Filter{}); !slices.Equal(got, ids) {
		f.t.Errorf("ListDead after a restart gives %v, want %v", got, ids)
	}
	i, err := f.GetDead(f.ctx(), ids[3])
	if err != nil || string(i.Payload) != "3" || i.Meta["i"] != "3" || i.Queue != "b" || i.Name != "n3" || i.Reason != job.Final || len(i.History) != 1 {
		f.t.Errorf("GetDead = %+v, %v, want job 3 with payload and history", i, err)
	}
	good := f.enqueue(job.Job{})
	f.staff(1, echo)
	f.good(good.ID)
	if _, err := f.GetDead(f.ctx(), good.ID); !errors.Is(err, job.ErrNotFound) {
		f.t.Errorf("GetDead of a job that ended well = %v, want ErrNotFound", err)
	}
}

func testRetryDead(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(1, fails)
	j := job.Job{
		Name: "work", Payload: []byte("p"), Meta: map[string]string{"k": "v"}, Key: "key", Priority: job.Low,
		Deadline: time.Now().Add(6 * time.Second), Limits: bullpen.Limits{Output: 77}, // a cluster makes its consumers first
	}
	id := f.enqueue(j).ID
	f.bad(id, bullpen.Failed, job.Final)
	f.pass(time.Until(j.Deadline) + time.Millisecond)
	ref, err := f.RetryDead(f.ctx(), id)
	if err != nil || ref.ID == "" || ref.ID == id || ref.Existing {
		f.t.Fatalf("RetryDead = %+v, %v, want a new job", ref, err)
	}
	if r := f.good(ref.ID); string(r.Payload) != "p" {
		f.t.Errorf("the result is %q, want p", r.Payload)
	}
	s := f.numbered(c, ref.ID, 1)[0]
	if s.Parent != id || s.Undoes != "" || s.Redelivered || s.task.Meta["k"] != "v" || s.task.Limits != j.Limits || s.task.Name != j.Name {
		f.t.Errorf("the handler received %+v with %+v, want the first attempt of a job whose parent is %s", s.Delivered, s.task, id)
	}
	if i := f.get(ref.ID); i.Parent != id || i.Attempts != 1 || i.Priority != job.Low || i.State != job.Done {
		f.t.Errorf("Get = %+v, want done at the first attempt, with its parent", i)
	}
	if got := f.dead(job.Filter{}); len(got) != 0 {
		f.t.Errorf("ListDead gives %v, want the job gone that is tried again", got)
	}
	if _, err := f.RetryDead(f.ctx(), id); !errors.Is(err, job.ErrNotFound) {
		f.t.Errorf("the second RetryDead = %v, want ErrNotFound", err)
	}
	if i := f.get(id); i.State != job.Dead {
		f.t.Errorf("the outcome of the first job is %v, want dead", i.State)
	}
	if _, err := f.GetDead(f.ctx(), id); !errors.Is(err, job.ErrNotFound) {
		f.t.Errorf("GetDead = %v, want ErrNotFound", err)
	}
}

func testRetryDeadRace(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(2, fails)
	for range 5 {
		id := f.enqueue(job.Job{}).ID
		f.bad(id, bullpen.Failed, job.Final)
		var mu sync.Mutex
		again := map[string]int{}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				ref, err := f.RetryDead(f.t.Context(), id)
				if err != nil && !errors.Is(err, job.ErrNotFound) {
					f.t.Errorf("RetryDead = %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					again[ref.ID]++
				}
			})
		}
		group.Wait()
		if len(again) != 1 {
			f.t.Fatalf("RetryDead at the same time gave %v, want one new job", again)
		}
		for ref := range again {
			f.good(ref)
		}
	}
	f.pass(moment)
	if n := len(c.of("")); n != 10 {
		f.t.Errorf("%d jobs ran, want 10", n)
	}
}

func testRemoveDead(f *fixture) {
	f.open(queue.Config{})
	f.staff(1, fails)
	id := f.enqueue(job.Job{}).ID
	f.bad(id, bullpen.Failed, job.Final)
	if err := f.RemoveDead(f.ctx(), id); err != nil {
		f.t.Errorf("RemoveDead = %v", err)
	}
	if got := f.dead(job.Filter{}); len(got) != 0 {
		f.t.Errorf("ListDead gives %v, want none", got)
	}
	for name, err := range map[string]error{"RemoveDead": f.RemoveDead(f.ctx(), id), "RetryDead": func() error { _, err := f.RetryDead(f.ctx(), id); return err }()} {
		if !errors.Is(err, job.ErrNotFound) {
			f.t.Errorf("%s of a job that was removed = %v, want ErrNotFound", name, err)
		}
	}
	if i := f.get(id); i.State != job.Dead {
		f.t.Errorf("the outcome is %v, want dead: it is kept", i.State)
	}
}

// testCompensate wants the job that undoes another once, after all bad ends.
func testCompensate(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 2}})
	g := newGate()
	c := f.staff(4, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		switch t.Name {
		case "crash":
			return nil, ends(bullpen.Crashed)
		case "gate", "ok", "fail", "retry":
			return byName(g)(ctx, t)
		default:
			return nil, nil
		}
	})
	wants := map[string]bullpen.Outcome{}
	for name, o := range map[string]bullpen.Outcome{
		"crash": bullpen.Crashed, "fail": bullpen.Failed, "retry": bullpen.Failed, "ok": bullpen.OK, "gate": bullpen.Canceled,
	} {
		id := f.enqueue(job.Job{Name: name, Payload: []byte(name), Priority: job.High, Compensate: "undo"}).ID
		wants[id] = o
		if name == "gate" {
			await(f, "it runs", g.started)
			f.cancel(f.Queue, id)
		}
	}
	for id := range wants {
		_, _ = f.wait(id) // the ends are known
	}
	undone := func() (all []start) {
		for _, s := range c.of("") {
			if s.task.Name == "undo" {
				all = append(all, s)
			}
		}
		return all
	}
	f.eventually("four jobs are undone", func() bool { return len(undone()) >= 4 })
	f.pass(moment)
	seen := map[string]bool{}
	for _, s := range undone() {
		if seen[s.Parent] {
			f.t.Errorf("job %s is undone twice, by %+v", s.Parent, undone())
		}
		if o, ok := wants[s.Parent]; !ok || o == bullpen.OK || s.Undoes != o.String() || s.Task != string(s.task.Payload) || s.Attempt != 1 {
			f.t.Errorf("a compensation received %+v with %q, want parent, outcome and task", s.Delivered, s.task.Payload)
		}
		seen[s.Parent] = true
		f.good(s.task.ID)
		if i := f.get(s.task.ID); i.Parent != s.Parent || i.Priority != job.High || i.State != job.Done {
			f.t.Errorf("Get of a compensation = %+v, want its parent", i)
		}
	}
	if len(seen) != 4 {
		f.t.Errorf("%d jobs were undone, want 4", len(seen))
	}
}

func testNoCompensation(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 1}})
	j := job.Job{Name: "ok", Compensate: "undo"}
	canceled := f.enqueue(j).ID
	f.cancel(f.Queue, canceled)
	expired, unknown := j, j
	expired.Deadline, unknown.Name = time.Now(), "unknown"
	c := newExecutor(2, echo)
	c.refusing(func(t bullpen.Task) error {
		if t.Name == "unknown" {
			return bullpen.ErrUnknownTask
		}
		return nil
	})
	f.work(f.Queue, c, queue.WorkConfig{})
	f.bad(f.enqueue(expired).ID, bullpen.Timeout, job.Expired)
	f.bad(f.enqueue(unknown).ID, bullpen.Failed, job.Refused)
	f.good(f.enqueue(j).ID)
	f.pass(moment)
	if n := len(c.of("")); n != 1 || f.Stats().Enqueued != 4 {
		f.t.Errorf("%d jobs ran and %d were enqueued, want 1 and 4: what did not start, or ended well, is not undone", n, f.Stats().Enqueued)
	}
}
