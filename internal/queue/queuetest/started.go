package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

var errOdd = errors.New("an error that no executor has a name for")

// testNeverStarted has executors that do not start a job at first: that is no
// attempt.
func testNeverStarted(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 1, Nodes: 1, Crashes: 1}})
	for i, reason := range []error{bullpen.ErrOverloaded, bullpen.ErrStart, errOdd, context.Canceled} {
		name := fmt.Sprint("q", i)
		var times atomic.Int64
		c := newExecutor(1, echo)
		c.refusing(func(bullpen.Task) error {
			if times.Add(1) <= 4 {
				return fmt.Errorf("not now: %w", reason)
			}
			return nil
		})
		f.work(f.Queue, c, queue.WorkConfig{Queue: name})
		id := f.enqueue(job.Job{Queue: name}).ID
		f.good(id)
		if starts := f.numbered(c, id, 1); starts[0].Redelivered {
			f.t.Errorf("%v: a job that never started is said to be redelivered", reason)
		}
		if info := f.get(id); info.Attempts != 1 || info.Crashes != 0 || len(info.History) > 1 {
			f.t.Errorf("%v: Get = %+v, want 1 attempt", reason, info)
		}
		if n := f.Stats().GaveBack; n != uint64(4*(i+1)) {
			f.t.Errorf("%v: Stats says %d were given back, want %d", reason, n, 4*(i+1))
		}
	}
}

// testNoSpin wants a job that cannot start not to go round and round.
func testNoSpin(f *fixture) {
	f.open(queue.Config{})
	const d, most = 500 * time.Millisecond, 250
	for i, reason := range []error{bullpen.ErrOverloaded, bullpen.ErrStart, errOdd} {
		name := fmt.Sprint("q", i)
		var times atomic.Int64
		c := newExecutor(1, echo)
		c.refusing(func(bullpen.Task) error { times.Add(1); return reason })
		w := f.work(f.Queue, c, queue.WorkConfig{Queue: name})
		id := f.enqueue(job.Job{Queue: name}).ID
		f.eventually("it is tried", func() bool { return times.Load() > 0 })
		f.pass(d)
		if n := times.Load(); n > most {
			f.t.Errorf("%v: one job was handed to the executor %d times in %v, want %d at most", reason, n, d, most)
		}
		c.refusing(nil)
		f.good(id)
		w.stop()
	}
}

// testHoldOffEnds has an executor that does not start a job now and then: those
// between do not wait for it ever longer.
func testHoldOffEnds(f *fixture) {
	f.open(queue.Config{})
	const n, every, most = 150, 5, 20 * time.Second
	var times atomic.Int64
	c := newExecutor(2, echo)
	c.refusing(func(bullpen.Task) error {
		if times.Add(1)%every == 0 {
			return bullpen.ErrOverloaded
		}
		return nil
	})
	f.enqueueAll(jobs(n, job.Job{}))
	f.work(f.Queue, c, queue.WorkConfig{})
	ended := func() uint64 { return f.Stats().Ended[bullpen.OK] }
	for end := time.Now().Add(most); ended() < n && time.Now().Before(end); {
		f.pass(5 * time.Millisecond)
	}
	if got := ended(); got != n {
		f.t.Errorf("of %d jobs %d ended in %v on an executor that is full one time of %d, want all", n, got, most, every)
	}
}

func testExecutorClosed(f *fixture) {
	f.open(queue.Config{})
	c := newExecutor(1, echo)
	_ = c.Close()
	w := f.work(f.Queue, c, queue.WorkConfig{})
	id := f.enqueue(job.Job{}).ID
	if err := w.wait(); !errors.Is(err, bullpen.ErrClosed) {
		f.t.Errorf("Work with a closed executor = %v, want bullpen.ErrClosed", err)
	}
	f.state(id, job.Queued)
	next := f.staff(1, echo)
	f.good(id)
	if starts := f.numbered(next, id, 1); starts[0].Redelivered {
		f.t.Error("a job that never started is said to be redelivered")
	}
}

func testUnknownTask(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 3}})
	var asked atomic.Int64
	c := newExecutor(1, echo)
	c.refusing(func(t bullpen.Task) error {
		if t.Name == "nobody knows it" || asked.Add(1) == 1 {
			return fmt.Errorf("%w: %q", bullpen.ErrUnknownTask, t.Name)
		}
		return nil
	})
	f.work(f.Queue, c, queue.WorkConfig{})
	id := f.enqueue(job.Job{Name: "nobody knows it", Compensate: "undo"}).ID
	end := f.bad(id, bullpen.Failed, job.Refused)
	if end.Attempts != 0 || end.Message == "" {
		f.t.Errorf("the end is %+v, want no attempts and a message", end)
	}
	if i, err := f.GetDead(f.ctx(), id); err != nil || i.Reason != job.Refused || i.Attempts != 0 {
		f.t.Errorf("GetDead = %+v, %v, want it refused without attempts", i, err)
	}
	known := f.enqueue(job.Job{Name: "known the second time"}).ID
	f.good(known)
	f.numbered(c, known, 1)
	f.pass(moment)
	if n := len(c.of("")); n != 1 {
		f.t.Errorf("%d tasks started, want 1: what never started is not compensated", n)
	}
}
