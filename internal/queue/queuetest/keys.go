package queuetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// same enqueues a job whose key is taken and wants the first job back.
func (f *fixture) same(j job.Job, id string, state job.State) {
	f.t.Helper()
	ref := f.enqueue(j)
	if ref.ID != id || !ref.Existing || ref.State != state {
		f.t.Errorf("Enqueue with a key that is taken = %+v, want %s, existing, %v", ref, id, state)
	}
}

func testKey(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	j, other := job.Job{Name: "first", Key: "k", Payload: []byte("1")}, job.Job{Name: "other", Key: "k", Payload: []byte("2")}
	first := f.enqueue(j)
	if first.Existing {
		f.t.Errorf("the first Enqueue = %+v, want a new job", first)
	}
	f.same(other, first.ID, job.Queued)
	delayed := f.enqueue(job.Job{Key: "delayed", Delay: time.Hour})
	f.same(job.Job{Key: "delayed"}, delayed.ID, job.Scheduled)
	f.staff(1, g.handle)
	await(f, "it runs", g.started)
	f.same(other, first.ID, job.Running)
	g.open()
	f.good(first.ID)
	f.same(other, first.ID, job.Done)
	ref, r, err := f.Run(f.ctx(), other)
	if ref.ID != first.ID || string(r.Payload) != "1" || err != nil {
		f.t.Errorf("Run with a key that is taken = %+v, %q, %v, want the first job's result", ref, r.Payload, err)
	}
	if err := f.Cancel(f.ctx(), delayed.ID); err != nil {
		f.t.Errorf("Cancel = %v", err)
	}
	f.same(job.Job{Key: "delayed"}, delayed.ID, job.Canceled)
	if s := f.Stats(); s.Enqueued != 2 || s.Duplicates != 6 {
		f.t.Errorf("Stats = %+v, want 2 enqueued and 6 duplicates", s)
	}
}

func testKeyEnds(f *fixture) {
	f.open(queue.Config{KeyWindow: 1200 * time.Millisecond})
	c := f.staff(1, func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if t.Name == "bad" {
			return nil, bullpen.Fail("no", false)
		}
		return nil, nil
	})
	for _, name := range []string{"good", "bad"} {
		j := job.Job{Name: name, Key: name}
		first := f.enqueue(j)
		if _, err := f.wait(first.ID); (err == nil) != (name == "good") {
			f.t.Fatalf("Wait = %v", err)
		}
		ended := f.get(first.ID)
		f.same(j, first.ID, ended.State)
		var again job.Ref
		f.eventually("the key is free", func() bool {
			again = f.enqueue(j)
			return again.ID != first.ID
		})
		if d := time.Since(ended.Ended); d < f.config.KeyWindow {
			f.t.Errorf("the key was free %v after the end, want %v at least", d, f.config.KeyWindow)
		}
		if again.Existing {
			f.t.Errorf("Enqueue after the window = %+v, want a new job", again)
		}
		_, _ = f.wait(again.ID) // its end is that of the first
	}
	if n := len(c.of("")); n != 4 {
		f.t.Errorf("%d jobs ran, want 4", n)
	}
}

func testKeyOfQueue(f *fixture) {
	f.open(queue.Config{})
	a, b := f.enqueue(job.Job{Queue: "a", Key: "k"}), f.enqueue(job.Job{Queue: "b", Key: "k"})
	if a.ID == b.ID || b.Existing {
		f.t.Errorf("two queues gave %+v and %+v for one key, want two jobs", a, b)
	}
}

// race enqueues jobs at the same time.
func (f *fixture) race(all []job.Job) []job.Ref {
	f.t.Helper()
	refs := make([]job.Ref, len(all))
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i, j := range all {
		group.Go(func() {
			<-begin
			var err error
			if refs[i], err = f.Enqueue(f.t.Context(), j); err != nil {
				f.t.Errorf("caller %d: Enqueue = %v", i, err)
			}
		})
	}
	close(begin)
	group.Wait()
	return refs
}

// oneJob wants all callers of a race to have the id of one job, that is there once.
func (f *fixture) oneJob(refs []job.Ref, fresh bool) {
	f.t.Helper()
	created := 0
	for i, ref := range refs {
		if ref.ID == "" || ref.ID != refs[0].ID {
			f.t.Fatalf("caller %d has the job %q, caller 0 has %q, want the same", i, ref.ID, refs[0].ID)
		}
		if !ref.Existing {
			created++
		}
	}
	if created > 1 || fresh && created == 0 {
		f.t.Errorf("%d callers heard that the job is new, want one", created)
	}
	if s := f.Stats(); s.Enqueued != uint64(1) {
		f.t.Errorf("Stats says %d were enqueued, want 1", s.Enqueued)
	}
}

const racers = 64

func testKeyRace(f *fixture) {
	f.open(queue.Config{})
	refs := f.race(jobs(racers, job.Job{Key: "k", Payload: []byte("x")}))
	f.oneJob(refs, true)
	c := f.staff(4, echo)
	f.good(refs[0].ID)
	f.pass(moment)
	if n := len(c.of("")); n != 1 {
		f.t.Errorf("%d jobs ran, want 1", n)
	}
}

// testKeyRaceMixed lets callers race that say different things of their job: the
// first has it, "whatever else the others say".
func testKeyRaceMixed(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(8, echo)
	const rounds = 10
	for round := range rounds {
		all := jobs(racers/2, job.Job{Key: fmt.Sprint("k ", round)})
		for i := range all {
			all[i].Priority = []job.Priority{job.High, job.Normal, job.Low}[i%3]
			all[i].Delay = time.Duration(i%2) * 20 * time.Millisecond
		}
		refs := f.race(all)
		for i, ref := range refs {
			if ref.ID == "" || ref.ID != refs[0].ID {
				f.t.Fatalf("caller %d has the job %q, caller 0 has %q, want the same", i, ref.ID, refs[0].ID)
			}
		}
		f.good(refs[0].ID)
	}
	f.pass(moment)
	if n := len(c.of("")); n != rounds || f.Stats().Enqueued != rounds {
		f.t.Errorf("%d jobs ran and %d were enqueued, want %d", n, f.Stats().Enqueued, rounds)
	}
}

func testKeyReopen(f *fixture) {
	f.open(queue.Config{KeyWindow: time.Hour})
	waiting := f.enqueue(job.Job{Queue: "later", Key: "waits"})
	done := f.enqueue(job.Job{Key: "ends"})
	c := newExecutor(1, echo)
	w := f.work(f.Queue, c, queue.WorkConfig{})
	f.good(done.ID)
	w.stop()
	f.reopen()
	f.same(job.Job{Queue: "later", Key: "waits"}, waiting.ID, job.Queued)
	f.same(job.Job{Key: "ends"}, done.ID, job.Done)
	if s := f.Stats(); s.Duplicates != 2 || s.Enqueued != 0 {
		f.t.Errorf("Stats = %+v, want 2 duplicates", s)
	}
}
