package queuetest

import (
	"context"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

func testDelay(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(8, echo)
	due := map[string]time.Time{}
	for i := range 10 {
		j := job.Job{Name: "later", Priority: job.Priority(i % 3)}
		d := time.Duration(i) * 70 * time.Millisecond
		at := time.Now().Add(d)
		if i%2 == 0 {
			j.Delay = d
		} else {
			j.At = at
		}
		ref := f.enqueue(j)
		due[ref.ID] = at
		if d < 300*time.Millisecond {
			continue
		}
		if ref.State != job.Scheduled {
			f.t.Errorf("Enqueue with a delay of %v = %+v, want it scheduled", d, ref)
		}
		if info := f.get(ref.ID); info.State != job.Scheduled || info.At.Before(at.Add(-time.Millisecond)) {
			f.t.Errorf("Get = %v at %v, want scheduled at %v", info.State, info.At, at)
		}
	}
	past := f.enqueue(job.Job{At: time.Now().Add(-time.Hour)})
	if past.State != job.Queued {
		f.t.Errorf("Enqueue with a time that has passed = %+v, want it queued", past)
	}
	f.good(past.ID)
	for id, at := range due {
		f.good(id)
		starts := c.of(id)
		if len(starts) != 1 {
			f.t.Fatalf("job %s started %d times, want once", id, len(starts))
		}
		if after := starts[0].at.Sub(at); after < 0 || after > late {
			f.t.Errorf("job %s started %v after its time, want from 0 to %v", id, after, late)
		}
	}
}

// crowd puts n jobs of each priority into the queue, and returns what they are.
func (f *fixture) crowd(n int) map[string]job.Priority {
	f.t.Helper()
	var all []job.Job
	for _, p := range []job.Priority{job.Low, job.Normal, job.High} {
		all = append(all, jobs(n, job.Job{Name: p.String(), Priority: p})...)
	}
	of := map[string]job.Priority{}
	for i, id := range f.enqueueAll(all) {
		of[id] = all[i].Priority
	}
	return of
}

// order runs the crowd and returns in which order the priorities started.
func (f *fixture) order(size int, of map[string]job.Priority, strict bool) []job.Priority {
	f.t.Helper()
	c := newExecutor(size, echo)
	f.work(f.Queue, c, queue.WorkConfig{Strict: strict})
	for id := range of {
		f.good(id)
	}
	var order []job.Priority
	for _, s := range c.of("") {
		order = append(order, of[s.task.ID])
	}
	if len(order) != len(of) {
		f.t.Fatalf("%d jobs ran, want %d", len(order), len(of))
	}
	return order
}

func count(order []job.Priority, p job.Priority) int {
	n := 0
	for _, o := range order {
		if o == p {
			n++
		}
	}
	return n
}

// testPriorities wants 8 high, 4 normal and 1 low of 13 while all wait. The first
// few of each level may come early: one of each is asked for at the start.
func testPriorities(f *fixture) {
	f.open(queue.Config{})
	const n, rounds, slack = 130, 13, 4
	for _, size := range []int{1, 4} {
		order := f.order(size, f.crowd(n), false)[:13*rounds]
		for p, weight := range map[job.Priority]int{job.High: 8, job.Normal: 4, job.Low: 1} {
			got, want := count(order, p), weight*rounds
			if off := max(slack, want/10); got < want-off || got > want+off {
				f.t.Errorf("%d places: of the first %d jobs %d were %v, want %d (%d more or less)", size, len(order), got, p, want, off)
			}
		}
		f.reopen() // ends the first call of Work
	}
}

func testStrict(f *fixture) {
	f.open(queue.Config{})
	// At the start one of each level is asked for, and as many normal ones as can
	// start: it is not known yet what waits.
	const n, slack = 60, 2 + spare
	order := f.order(2, f.crowd(n), true)
	if low := n - count(order[:n+2*slack], job.High); low > slack {
		f.t.Errorf("%d high jobs had not started after %d starts, want %d at most: %v", low, n+2*slack, slack, order)
	}
	first := slices.Index(order[slack:], job.Low) + slack
	if left := n - count(order[:first], job.Normal); left > slack {
		f.t.Errorf("%d normal jobs had not started when the low ones began, want %d at most", left, slack)
	}
}

func testDeadlineBefore(f *fixture) {
	f.open(queue.Config{})
	var ids []string
	for _, j := range []job.Job{{}, {Compensate: "undo"}, {Key: "k", Priority: job.High}} {
		j.Deadline = time.Now().Add(20 * time.Millisecond)
		ids = append(ids, f.enqueue(j).ID)
	}
	past := f.enqueue(job.Job{Deadline: time.Now().Add(-time.Hour)})
	f.pass(30 * time.Millisecond)
	c := f.staff(2, echo)
	for _, id := range append(ids, past.ID) {
		if end := f.bad(id, bullpen.Timeout, job.Expired); end.Attempts != 0 || end.Task != nil {
			f.t.Errorf("the end is %+v, want no attempt", end)
		}
		if i := f.get(id); i.State != job.Dead || i.Attempts != 0 {
			f.t.Errorf("Get = %+v, want dead without an attempt", i)
		}
	}
	f.pass(moment)
	if starts := c.of(""); len(starts) != 0 {
		f.t.Errorf("%d handlers started, want none after the deadline: %+v", len(starts), starts)
	}
}

func testDeadlineRunning(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := f.staff(1, g.handle)
	deadline := time.Now().Add(time.Second)
	ref := f.enqueue(job.Job{Deadline: deadline})
	end := f.bad(ref.ID, bullpen.Timeout, job.Expired)
	if d := time.Since(deadline); d < -time.Millisecond || d > late {
		f.t.Errorf("it ended %v after its deadline, want from 0 to %v", d, late)
	}
	if end.Attempts != 1 || len(c.of(ref.ID)) != 1 || f.get(ref.ID).State != job.Dead {
		f.t.Errorf("the end is %+v, want dead after 1 attempt", &end)
	}
}

// testDeadlineRetrying wants a job that waits for another attempt to end at its
// deadline, not when the attempt would be due.
func testDeadlineRetrying(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Backoff: time.Minute}})
	c := f.staff(1, func(context.Context, bullpen.Task) ([]byte, error) { return nil, ends(bullpen.Failed) })
	deadline := time.Now().Add(300 * time.Millisecond)
	ref := f.enqueue(job.Job{Deadline: deadline})
	f.bad(ref.ID, bullpen.Timeout, job.Expired)
	if d := time.Since(deadline); d > 2*late {
		f.t.Errorf("it ended %v after its deadline, want %v at most", d, 2*late)
	}
	if n := len(c.of(ref.ID)); n != 1 {
		f.t.Errorf("%d attempts started, want 1", n)
	}
}

func testBackoff(f *fixture) {
	const backoff, most = 80 * time.Millisecond, 200 * time.Millisecond
	f.open(queue.Config{Retry: job.Retry{Attempts: 5, Backoff: backoff, MaxBackoff: most}})
	ends := make(chan time.Time, 100)
	c := f.staff(4, func(context.Context, bullpen.Task) ([]byte, error) {
		ends <- time.Now()
		return nil, bullpen.Fail("again", true)
	})
	ref := f.enqueue(job.Job{})
	f.bad(ref.ID, bullpen.Failed, job.Exhausted)
	starts := c.of(ref.ID)
	if len(starts) != 5 {
		f.t.Fatalf("%d attempts started, want 5", len(starts))
	}
	want := backoff
	for i := range 4 {
		gap := starts[i+1].at.Sub(await(f, "an attempt ends", ends))
		if gap < want/2 || gap > want+late {
			f.t.Errorf("attempt %d began %v after the end of the one before, want %v to %v (and %v late)", i+2, gap, want/2, want, late)
		}
		want = min(2*want, most)
	}
}

// testCrashAtOnce wants the next attempt of a job whose worker died within 640 ms,
// twenty times what it takes on a quiet machine, whatever else waits.
func testCrashAtOnce(f *fixture) {
	f.open(queue.Config{})
	const crashes, within = 9, 640 * time.Millisecond
	died := make(chan time.Time, crashes)
	ids := f.enqueueAll(slices.Concat(
		jobs(20, job.Job{Name: "other"}), jobs(crashes, job.Job{Name: "crash"}), jobs(1000, job.Job{Name: "other"})))
	c := f.staff(2, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.Name == "crash" && queue.AttemptOf(t).Attempt == 1 {
			died <- time.Now()
			return nil, ends(bullpen.Crashed)
		}
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil, nil
	})
	for _, id := range ids[20 : 20+crashes] {
		f.good(id)
	}
	var gaps []time.Duration
	for _, id := range ids[20 : 20+crashes] {
		starts := c.of(id)
		if len(starts) != 2 || !starts[1].Redelivered {
			f.t.Fatalf("job %s started %+v, want twice, redelivered", id, starts)
		}
		gaps = append(gaps, starts[1].at.Sub(starts[0].at))
	}
	slices.Sort(gaps)
	f.t.Logf("from the death of a worker to the next attempt: p50 %v, most %v", gaps[crashes/2], gaps[crashes-1])
	if gaps[crashes/2] > within {
		f.t.Errorf("half of the jobs took more than %v to run again after a crash, want %v at most", gaps[crashes/2], within)
	}
	if d, err := f.Depth(f.ctx(), "default"); err != nil || d[1].Waiting == 0 {
		f.t.Logf("nothing waited any more when the last one ran again: %+v, %v", d, err)
	}
}
