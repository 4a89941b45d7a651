package queuetest

import (
	"context"
	"errors"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// cancel takes a job back, which must succeed, and looks at its end.
func (f *fixture) cancel(q *queue.Queue, id string) {
	f.t.Helper()
	if err := q.Cancel(f.ctx(), id); err != nil {
		f.t.Fatalf("Cancel = %v", err)
	}
	end := f.bad(id, bullpen.Canceled, job.TakenBack)
	if !errors.Is(&end, context.Canceled) {
		f.t.Errorf("the end %v is not context.Canceled", &end)
	}
	if i := f.get(id); i.State != job.Canceled || i.Outcome != bullpen.Canceled || i.Ended.IsZero() {
		f.t.Errorf("Get = %+v, want canceled", i)
	}
	if err := q.Cancel(f.ctx(), id); !errors.Is(err, job.ErrEnded) {
		f.t.Errorf("the second Cancel = %v, want ErrEnded", err)
	}
}

// once wants each of the jobs among those that have ended, once.
func (f *fixture) once(ids ...string) map[string]job.Info {
	f.t.Helper()
	all := map[string]job.Info{}
	for _, i := range f.list(job.Filter{States: ended, Limit: 1000}) {
		if _, twice := all[i.ID]; twice {
			f.t.Errorf("job %s is listed twice among those that have ended", i.ID)
		}
		all[i.ID] = i
	}
	for _, id := range ids {
		if _, ok := all[id]; !ok {
			f.t.Errorf("job %s is not among those that have ended", id)
		}
	}
	return all
}

// empty wants nothing to be left of jobs that are not done.
func (f *fixture) empty() {
	f.t.Helper()
	f.eventually("the queue is empty", func() bool {
		s, err := f.Status(f.ctx())
		if err != nil {
			f.t.Fatalf("Status = %v", err)
		}
		return s.Jobs.Messages == 0 && f.Stats().InHand == 0 && f.Stats().Recording == 0
	})
}

func testCancelWaiting(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Backoff: time.Hour}})
	c := newExecutor(2, byName(newGate()))
	w := f.work(f.Queue, c, queue.WorkConfig{})
	retrying := f.enqueue(job.Job{Name: "retry"}).ID
	f.state(retrying, job.Retrying)
	w.stop()
	ids := []string{
		f.enqueue(job.Job{}).ID, f.enqueue(job.Job{Priority: job.High, Key: "k"}).ID, f.enqueue(job.Job{Delay: time.Hour}).ID, retrying,
	}
	for _, id := range ids {
		f.cancel(f.Queue, id)
	}
	f.once(ids...)
	f.empty()
	next := f.staff(2, echo)
	f.good(f.enqueue(job.Job{}).ID)
	f.pass(moment)
	if n := len(next.of("")); n != 1 {
		f.t.Errorf("%d jobs started, want none that was canceled", n)
	}
	if p, err := f.ListDead(f.ctx(), job.Filter{}); err != nil || len(p.Jobs) != 0 {
		f.t.Errorf("ListDead = %+v, %v, want none that was canceled", p, err)
	}
	if n := f.Stats().Ended[bullpen.Canceled]; n != 4 {
		f.t.Errorf("Stats says %d were canceled, want 4", n)
	}
}

func testCancelRunning(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	interrupted := make(chan struct{}, 1)
	c := f.staff(1, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		g.started <- t
		if t.Name == "quick" {
			return nil, nil
		}
		<-ctx.Done()
		interrupted <- struct{}{}
		if t.Name == "stubborn" {
			return []byte("too late"), nil
		}
		return nil, ctx.Err()
	})
	var ids []string
	for _, name := range []string{"polite", "stubborn"} {
		id := f.enqueue(job.Job{Name: name}).ID
		ids = append(ids, id)
		await(f, "it runs", g.started)
		f.cancel(f.Queue, id)
		await(f, "its context ends", interrupted)
	}
	f.good(f.enqueue(job.Job{Name: "quick"}).ID)
	f.once(ids...)
	f.empty()
	for _, id := range ids {
		f.numbered(c, id, 1)
		if r, err := f.wait(id); err == nil {
			f.t.Errorf("Wait for a canceled job = %q, want its end: what it answers is not recorded", r.Payload)
		}
	}
}

func testCancelEnded(f *fixture) {
	f.open(queue.Config{})
	f.staff(1, byName(newGate()))
	for name, want := range map[string]bullpen.Outcome{"echo": bullpen.OK, "fail": bullpen.Failed} {
		id := f.enqueue(job.Job{Name: name}).ID
		_, _ = f.wait(id) // its end is looked at below
		if err := f.Cancel(f.ctx(), id); !errors.Is(err, job.ErrEnded) {
			f.t.Errorf("Cancel of a job that has ended = %v, want ErrEnded", err)
		}
		if i := f.get(id); i.Outcome != want {
			f.t.Errorf("after Cancel the outcome is %v, want %v", i.Outcome, want)
		}
	}
}

// testCancelRace cancels jobs while they end: what Cancel says is what is
// recorded.
func testCancelRace(f *fixture) {
	f.open(queue.Config{})
	f.staff(4, echo)
	var ids []string
	for range 150 {
		ids = append(ids, f.enqueue(job.Job{Name: "race"}).ID)
		canceled := f.Cancel(f.ctx(), ids[len(ids)-1])
		if canceled != nil && !errors.Is(canceled, job.ErrEnded) {
			f.t.Fatalf("Cancel = %v, want nil or ErrEnded", canceled)
		}
		_, err := f.wait(ids[len(ids)-1])
		if (canceled == nil) != errors.Is(err, context.Canceled) || canceled != nil && err != nil {
			f.t.Fatalf("Cancel = %v and Wait = %v: they do not agree", canceled, err)
		}
	}
	if all := f.once(ids...); len(all) != len(ids) {
		f.t.Errorf("%d outcomes are recorded of %d jobs", len(all), len(ids))
	}
	f.empty()
	s := f.Stats()
	if n := s.Ended[bullpen.OK] + s.Ended[bullpen.Canceled]; n != uint64(len(ids)) {
		f.t.Errorf("Stats = %+v, want %d ends", s, len(ids))
	}
}

func testCancelElsewhere(f *fixture) {
	f.open(queue.Config{})
	other := f.another()
	g := newGate()
	c := f.staff(1, g.handle)
	running := f.enqueue(job.Job{}).ID
	await(f, "it runs", g.started)
	waiting := f.enqueue(job.Job{}).ID
	f.cancel(other, waiting)
	f.cancel(other, running)
	f.once(running, waiting)
	f.empty()
	f.numbered(c, running, 1)
	f.numbered(c, waiting, 0)
}

// still wants that no job starts for a moment.
func (f *fixture) still(c *executor, n int) {
	f.t.Helper()
	f.pass(moment)
	if got := len(c.of("")); got != n {
		f.t.Errorf("%d jobs have started, want %d while the queue is paused", got, n)
	}
}

func (f *fixture) paused(q *queue.Queue, want bool) {
	f.t.Helper()
	all, err := q.Depth(f.ctx(), "default")
	if err != nil || len(all) != 3 {
		f.t.Fatalf("Depth = %+v, %v, want three priorities", all, err)
	}
	for _, d := range all {
		if d.Paused != want {
			f.t.Errorf("Depth = %+v, want paused %v", d, want)
		}
	}
}

func testPause(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(2, echo)
	f.good(f.enqueue(job.Job{}).ID)
	if err := f.Pause(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Pause = %v", err)
	}
	f.paused(f.Queue, true)
	ids := f.enqueueAll([]job.Job{{}, {Priority: job.High}, {Priority: job.Low}, {Delay: 20 * time.Millisecond}})
	f.still(c, 1)
	other := newExecutor(1, echo)
	f.work(f.Queue, other, queue.WorkConfig{Queue: "other"})
	f.good(f.enqueue(job.Job{Queue: "other"}).ID)
	f.eventually("Depth tells of 4 that wait", func() bool {
		d, err := f.Depth(f.ctx(), "default")
		if err != nil || len(d) != 3 || d[0].Oldest.IsZero() {
			f.t.Fatalf("Depth = %+v, %v, want three priorities and the oldest", d, err)
		}
		return d[0].Waiting+d[1].Waiting+d[2].Waiting == 4
	})
	if err := f.Resume(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Resume = %v", err)
	}
	for _, id := range ids {
		f.good(id)
	}
	f.paused(f.Queue, false)
}

func testPauseReopen(f *fixture) {
	f.open(queue.Config{})
	if err := f.Pause(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Pause = %v", err)
	}
	id := f.enqueue(job.Job{}).ID
	f.reopen()
	c := f.staff(1, echo)
	f.still(c, 0)
	f.paused(f.Queue, true)
	if err := f.Resume(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Resume = %v", err)
	}
	f.good(id)
	f.reopen()
	f.paused(f.Queue, false)
}

func testPauseElsewhere(f *fixture) {
	f.open(queue.Config{})
	other := f.another()
	c := f.staff(1, echo)
	f.good(f.enqueue(job.Job{}).ID)
	if err := other.Pause(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Pause = %v", err)
	}
	id := f.enqueue(job.Job{}).ID
	f.still(c, 1)
	f.paused(f.Queue, true)
	if err := other.Resume(f.ctx(), "default"); err != nil {
		f.t.Fatalf("Resume = %v", err)
	}
	f.good(id)
}
