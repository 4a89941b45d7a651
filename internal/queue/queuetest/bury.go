package queuetest

import (
	"context"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// testBury wants the task of each dead job enqueued once, whatever it died of and whether
// it started or not.
func testBury(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 2}})
	g := newGate()
	c := f.mortals(g)
	wants := map[string]job.Delivered{}
	dies := func(j job.Job, o bullpen.Outcome, reason job.Reason) string {
		id := f.enqueue(j).ID
		wants[id] = job.Delivered{Attempt: 1, Parent: id, Task: j.Name, Reason: reason, Outcome: o.String()}
		f.bad(id, o, reason)
		return id
	}
	failed := dies(mortal("fail"), bullpen.Failed, job.Final)
	dies(mortal("retry"), bullpen.Failed, job.Exhausted)
	dies(mortal("crash"), bullpen.Crashed, job.Quarantined)
	dies(mortal("unknown"), bullpen.Failed, job.Refused)
	late, both, self := mortal("late"), mortal("fail"), mortal("fail")
	late.Deadline, both.Compensate, self.Bury = time.Now(), "undo", "bury and fail"
	dies(late, bullpen.Timeout, job.Expired)
	dies(both, bullpen.Failed, job.Final)
	dies(self, bullpen.Failed, job.Final)
	f.good(f.enqueue(mortal("ok")).ID)
	canceled := f.enqueue(mortal("gate")).ID
	await(f, "it runs", g.started)
	f.cancel(f.Queue, canceled)

	f.eventually("all are reported", func() bool { return len(burials(c)) >= len(wants) })
	f.pass(moment)
	f.checkBurials(burials(c), wants)
	if i := f.get(failed); i.Bury != "bury" {
		f.t.Errorf("Get of a dead job = %+v, want its Bury", i)
	}
	again, err := f.RetryDead(f.ctx(), failed)
	if err != nil {
		f.t.Fatalf("RetryDead = %v", err)
	}
	f.bad(again.ID, bullpen.Failed, job.Final)
	f.eventually("its second death is reported too", func() bool { return len(burials(c)) == len(wants)+1 })
}

// mortal is a job whose death is reported.
func mortal(name string) job.Job {
	return job.Job{Name: name, Payload: []byte(name), Meta: map[string]string{"k": "v"}, Priority: job.High, Bury: "bury"}
}

// mortals work, and die of what their task says.
func (f *fixture) mortals(g *gate) *executor {
	f.t.Helper()
	c := newExecutor(4, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		switch t.Name {
		case "crash":
			return nil, ends(bullpen.Crashed)
		case "bury and fail":
			return nil, bullpen.Fail("no", false)
		default:
			return byName(g)(ctx, t)
		}
	})
	c.refusing(func(t bullpen.Task) error {
		if t.Name == "unknown" {
			return bullpen.ErrUnknownTask
		}
		return nil
	})
	f.work(f.Queue, c, queue.WorkConfig{})
	return c
}

// burials are the jobs that reported a death.
func burials(c *executor) (all []start) {
	for _, s := range c.of("") {
		if s.Reason != "" {
			all = append(all, s)
		}
	}
	return all
}

// checkBurials wants each death reported once.
func (f *fixture) checkBurials(got []start, wants map[string]job.Delivered) {
	f.t.Helper()
	seen := map[string]bool{}
	for _, s := range got {
		want := wants[s.Parent]
		want.Since, want.Due = s.Since, s.Due
		if want.Error = s.Error; s.Delivered != want || s.Error == "" || string(s.task.Payload) != s.Task || s.task.Meta["k"] != "v" || seen[s.Parent] {
			f.t.Errorf("the task got %+v with %q, want %+v with payload and metadata, once", s.Delivered, s.task.Payload, want)
		}
		seen[s.Parent] = true
		if i := f.get(s.task.ID); i.Parent != s.Parent || i.Priority != job.High || i.Bury != "" {
			f.t.Errorf("Get of the job that reports it = %+v, want its parent and no Bury of its own", i)
		}
	}
	if len(seen) != len(wants) || len(got) != len(wants) {
		f.t.Errorf("%d deaths were reported %d times, want %d once each", len(seen), len(got), len(wants))
	}
}
