package queuetest

import (
	"context"
	"maps"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// testStats does some of everything and wants Stats and Events to tell the same.
func testStats(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 2}})
	feed := f.Events(4096)
	c := f.staff(4, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.Name == "crash" {
			return nil, ends(bullpen.Crashed)
		}
		return byName(nil)(ctx, t)
	})
	ids := f.enqueueAll([]job.Job{
		{Name: "echo"}, {Name: "echo", Key: "k"}, {Name: "fail", Compensate: "undo"}, {Name: "retry"}, {Name: "crash"}, {Delay: time.Hour},
	})
	f.enqueue(job.Job{Key: "k"})
	f.cancel(f.Queue, ids[5])
	for _, id := range ids {
		_, _ = f.wait(id) // the ends are known
	}
	f.eventually("the compensation ran", func() bool { return f.Stats().Ended[bullpen.OK] == 3 })
	if err := f.Pause(f.ctx(), "other"); err != nil {
		f.t.Fatal(err)
	}
	if err := f.Resume(f.ctx(), "other"); err != nil {
		f.t.Fatal(err)
	}
	again, err := f.RetryDead(f.ctx(), ids[2])
	if err != nil {
		f.t.Fatalf("RetryDead = %v", err)
	}
	f.bad(again.ID, bullpen.Failed, job.Final)
	f.eventually("the second compensation ran", func() bool { return f.Stats().Ended[bullpen.OK] == 4 })
	f.empty()
	s := f.Stats()
	ended := map[bullpen.Outcome]uint64{}
	ended[bullpen.OK], ended[bullpen.Failed], ended[bullpen.Crashed], ended[bullpen.Canceled] = 4, 3, 1, 1
	if s.Enqueued != 9 || s.Duplicates != 1 || s.Refused != 0 || !maps.Equal(s.Ended, ended) || s.Retried != 3 || s.GaveBack != 0 ||
		s.Dead != 4 || s.Quarantined != 1 || s.Damaged != 0 || s.Missing != 0 || s.Redelivered != 0 || s.Taken != 11 {
		f.t.Errorf("Stats = %+v, want 9 enqueued, 1 duplicate, 11 taken, ended %v, 3 retried, 4 dead, 1 quarantined", s, ended)
	}
	if one := f.QueueStats("default"); one.Enqueued != s.Enqueued || one.Taken != s.Taken || !maps.Equal(one.Ended, ended) ||
		one.Retried != 3 || one.Dead != 4 || one.Quarantined != 1 || one.Duplicates != 1 || one.Wait.Count != 11 || one.Run.Count != 11 {
		f.t.Errorf("QueueStats = %+v, want those of all queues, and 11 waits and runs", one)
	}
	if n := len(c.of("")); n != 11 {
		f.t.Errorf("%d attempts started, want 11", n)
	}
	want := map[job.EventKind]int{}
	want[job.Retried], want[job.Buried], want[job.TookBack], want[job.Compensated] = 3, 4, 1, 2
	want[job.TriedAgain], want[job.Paused], want[job.Resumed] = 1, 1, 1
	f.wantEvents(feed, want)
}

// wantEvents wants a feed to have sent so many events of each kind, and no other.
func (f *fixture) wantEvents(feed *queue.Feed, want map[job.EventKind]int) {
	f.t.Helper()
	feed.Close()
	got := map[job.EventKind]int{}
	for e := range feed.C {
		if e.Kind == job.Verified {
			continue
		}
		got[e.Kind]++
		if e.Time.IsZero() || e.String() == "" {
			f.t.Errorf("an event is %+v, want its time and words", e)
		}
	}
	if !maps.Equal(got, want) || feed.Dropped() != 0 {
		f.t.Errorf("the events were %v, want %v; %d were missed", got, want, feed.Dropped())
	}
}

// testNothingLeft wants nothing to be stored of jobs that are done but their
// outcomes, or the store would fill up.
func testNothingLeft(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 2}})
	g := newGate()
	w := f.work(f.Queue, newExecutor(4, byName(g)), queue.WorkConfig{})
	ids := f.enqueueAll([]job.Job{
		{Name: "echo"}, {Name: "fail"}, {Name: "retry"}, {Name: "echo", Delay: 20 * time.Millisecond},
		{Name: "gate"}, {Name: "retry", Retry: job.Retry{Backoff: time.Hour}}, {Name: "retry", Retry: job.Retry{Backoff: time.Minute}},
	})
	await(f, "it runs", g.started)
	f.cancel(f.Queue, ids[4])
	for _, id := range ids[5:] {
		f.state(id, job.Retrying)
		f.cancel(f.Queue, id)
	}
	for _, id := range ids {
		_, _ = f.wait(id) // the ends are known
	}
	again, err := f.RetryDead(f.ctx(), ids[1])
	if err != nil {
		f.t.Fatalf("RetryDead = %v", err)
	}
	f.bad(again.ID, bullpen.Failed, job.Final)
	w.stop()
	busy := newExecutor(1, echo)
	refused := 0
	busy.refusing(func(bullpen.Task) error {
		if refused++; refused <= 3 {
			return bullpen.ErrOverloaded
		}
		return nil
	})
	f.work(f.Queue, busy, queue.WorkConfig{})
	f.good(f.enqueue(job.Job{}).ID)
	f.empty()
	const keys = 1 // that of the job that was tried again, until its window has passed
	var s queue.Status
	look := func() bool {
		var err error
		if s, err = f.Status(f.ctx()); err != nil {
			f.t.Fatalf("Status = %v", err)
		}
		return s.State.Messages <= keys
	}
	for end := time.Now().Add(3 * time.Second); !look() && time.Now().Before(end); {
		f.pass(20 * time.Millisecond)
	}
	if s.State.Messages > keys || s.Outcomes.Messages != 9 || s.Dead.Messages != 2 {
		f.t.Errorf("when all is done %+v is stored, want 9 outcomes, 2 dead jobs and %d key", s, keys)
	}
}
