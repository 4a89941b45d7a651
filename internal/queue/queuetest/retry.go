package queuetest

import (
	"context"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// failing is a handler whose first n attempts end with an error.
func failing(n int, err error) bullpen.Handler {
	return func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if queue.AttemptOf(t).Attempt <= n {
			return nil, err
		}
		return t.Payload, nil
	}
}

// numbered wants the attempts of a job to be numbered from 1 to n.
func (f *fixture) numbered(c *executor, id string, n int) []start {
	f.t.Helper()
	starts := c.of(id)
	if len(starts) != n {
		f.t.Fatalf("job %s started %d times, want %d: %+v", id, len(starts), n, starts)
	}
	for i, s := range starts {
		if s.Attempt != i+1 {
			f.t.Errorf("start %d of job %s is said to be attempt %d", i+1, id, s.Attempt)
		}
	}
	return starts
}

func testRetry(f *fixture) {
	f.open(queue.Config{Node: "here"})
	c := f.staff(2, failing(2, bullpen.Fail("not yet", true)))
	id := f.enqueue(job.Job{Name: "work", Payload: []byte("p")}).ID
	if r := f.good(id); string(r.Payload) != "p" {
		f.t.Errorf("the result is %q, want p", r.Payload)
	}
	f.numbered(c, id, 3)
	i := f.get(id)
	if i.Attempts != 3 || i.Crashes != 0 || len(i.History) != 3 {
		f.t.Fatalf("Get = %+v, want 3 attempts and their history", i)
	}
	for n, a := range i.History {
		want, text := bullpen.Failed, "not yet"
		if n == 2 {
			want, text = bullpen.OK, ""
		}
		if a.Number != n+1 || a.Outcome != want || a.Error != text || a.Node != "here" || a.Worker != "executor" || a.Ended.IsZero() {
			f.t.Errorf("attempt %d is %+v, want %v, %q", n+1, a, want, text)
		}
	}
	if s := f.Stats(); s.Retried != 2 || s.Ended[bullpen.OK] != 1 || s.Dead != 0 {
		f.t.Errorf("Stats = %+v, want 2 retried and 1 ok", s)
	}
}

func testRetryPolicy(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 3}})
	onlyPanic := job.Retry{On: []bullpen.Outcome{bullpen.Panic}}
	for _, c := range []struct {
		name     string
		err      error
		retry    job.Retry
		outcome  bullpen.Outcome
		reason   job.Reason
		attempts int
	}{
		{"failed", bullpen.Fail("x", true), job.Retry{}, bullpen.Failed, job.Exhausted, 3},
		{"failed finally", bullpen.Fail("x", false), job.Retry{}, bullpen.Failed, job.Final, 1},
		{"timeout", ends(bullpen.Timeout), job.Retry{}, bullpen.Timeout, job.Exhausted, 3},
		{"protocol", ends(bullpen.Protocol), job.Retry{}, bullpen.Protocol, job.Exhausted, 3},
		{"output", ends(bullpen.Output), job.Retry{}, bullpen.Output, job.Final, 1},
		{"output listed", ends(bullpen.Output), job.Retry{On: []bullpen.Outcome{bullpen.Output}}, bullpen.Output, job.Exhausted, 3},
		{"failed, only panic listed", bullpen.Fail("x", true), onlyPanic, bullpen.Failed, job.Final, 1},
		{"once", bullpen.Fail("x", true), job.Retry{Attempts: 1}, bullpen.Failed, job.Exhausted, 1},
		{"twice", bullpen.Fail("x", true), job.Retry{Attempts: 2}, bullpen.Failed, job.Exhausted, 2},
	} {
		work := newExecutor(1, failing(99, c.err))
		w := f.work(f.Queue, work, queue.WorkConfig{Queue: strings.Map(token, c.name)})
		id := f.enqueue(job.Job{Queue: strings.Map(token, c.name), Retry: c.retry}).ID
		if end := f.bad(id, c.outcome, c.reason); end.Attempts != c.attempts || end.Task == nil {
			f.t.Errorf("%s: the end is %+v, want %d attempts and how the last ended", c.name, end, c.attempts)
		}
		f.numbered(work, id, c.attempts)
		w.stop()
	}
	panics := f.staff(1, func(context.Context, bullpen.Task) ([]byte, error) { panic("boom") })
	id := f.enqueue(job.Job{Retry: onlyPanic}).ID
	if end := f.bad(id, bullpen.Panic, job.Exhausted); end.Task == nil || end.Task.Message != "boom" {
		f.t.Errorf("panic: the end is %+v, want its message", end)
	}
	f.numbered(panics, id, 3)
}

// token makes a name of a queue out of words.
func token(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// testRetryFar has back-offs that are longer than a lease, which are kept another
// way.
func testRetryFar(f *fixture) {
	lease := f.subject.Lease
	f.open(queue.Config{Lease: lease, Retry: job.Retry{Attempts: 3, Backoff: 3 * lease, MaxBackoff: 3 * lease}})
	c := f.staff(1, failing(2, ends(bullpen.Failed)))
	j := job.Job{Name: "far", Payload: []byte("p"), Meta: map[string]string{"k": "v"}, Key: "key", Priority: job.Low, Compensate: "undo"}
	id := f.enqueue(j).ID
	i := f.state(id, job.Retrying)
	if i.Attempts != 1 || !i.At.After(time.Now().Add(-late)) || string(i.Payload) != "p" || i.Meta["k"] != "v" || i.Priority != job.Low || len(i.History) != 1 {
		f.t.Errorf("Get of a job that waits for another attempt = %+v, want all of it, 1 attempt and a time", i)
	}
	f.same(j, id, job.Retrying)
	if listed := f.list(job.Filter{States: laterOnes, Name: "far"}); len(listed) != 1 || listed[0].ID != id {
		f.t.Errorf("List of what is scheduled = %+v, want the job that waits for another attempt", listed)
	}
	f.good(id)
	starts := f.numbered(c, id, 3)
	for n, s := range starts {
		if s.Redelivered || string(s.task.Payload) != "p" || s.task.Meta["k"] != "v" {
			f.t.Errorf("attempt %d got %+v, want the payload and meta, not redelivered", n+1, s)
		}
		if n > 0 && s.at.Sub(starts[n-1].at) < 3*lease/2 {
			f.t.Errorf("attempt %d began %v after the one before, want %v at least", n+1, s.at.Sub(starts[n-1].at), 3*lease/2)
		}
	}
	if i := f.get(id); i.Attempts != 3 || i.State != job.Done {
		f.t.Errorf("Get = %+v, want done after 3 attempts", i)
	}
}

func testRetryReopen(f *fixture) {
	f.open(queue.Config{Lease: f.subject.Lease, Retry: job.Retry{Attempts: 3, Backoff: 400 * time.Millisecond}})
	first := newExecutor(1, failing(2, ends(bullpen.Failed)))
	w := f.work(f.Queue, first, queue.WorkConfig{})
	id := f.enqueue(job.Job{}).ID
	f.state(id, job.Retrying)
	w.stop()
	f.reopen()
	if i := f.get(id); i.State != job.Retrying || i.Attempts != 1 {
		f.t.Errorf("Get after a restart = %+v, want retrying with 1 attempt", i)
	}
	c := f.staff(1, failing(2, ends(bullpen.Failed)))
	f.good(id)
	starts := c.of(id)
	if len(starts) != 2 || starts[0].Attempt != 2 || starts[1].Attempt != 3 || starts[0].Redelivered {
		f.t.Fatalf("after a restart it started %+v, want attempts 2 and 3, not redelivered", starts)
	}
	if gap := starts[0].at.Sub(f.numbered(first, id, 1)[0].at); gap < 200*time.Millisecond {
		f.t.Errorf("after a restart it started %v after the attempt before, want 200ms at least", gap)
	}
}

func testLost(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(1, failing(1, ends(bullpen.Lost)))
	plain := f.enqueue(job.Job{}).ID
	f.bad(plain, bullpen.Lost, job.Final)
	f.numbered(c, plain, 1)
	idempotent := f.enqueue(job.Job{Idempotent: true}).ID
	f.good(idempotent)
	starts := f.numbered(c, idempotent, 2)
	if starts[0].Redelivered || !starts[1].Redelivered {
		f.t.Errorf("the attempt after one that was lost received %+v, want Redelivered: nobody has heard of the end of the first", starts[1].Delivered)
	}
}

func testQuarantine(f *fixture) {
	f.open(queue.Config{Node: "here"})
	for _, o := range []bullpen.Outcome{bullpen.Crashed, bullpen.Memory} {
		name := o.String()
		c := newExecutor(2, func(_ context.Context, t bullpen.Task) ([]byte, error) {
			t.Observer.Log(bullpen.LogLine{Stream: "stderr", Text: "help"})
			return nil, ends(o)
		})
		f.work(f.Queue, c, queue.WorkConfig{Queue: name})
		id := f.enqueue(job.Job{Queue: name, Name: "poison", Payload: []byte("p"), Meta: map[string]string{"k": "v"}, Retry: job.Retry{Attempts: 1}}).ID
		end := f.bad(id, o, job.Quarantined)
		want := ends(o)
		if end.Attempts != 3 || end.Task == nil || end.Task.Signal != want.Signal || end.Task.Detail != want.Detail || end.Task.Worker != "executor" {
			f.t.Errorf("%v: the end is %+v with %+v, want 3 attempts, signal and detail", o, end, end.Task)
		}
		f.numbered(c, id, 3)
		f.evidence(id, o)
	}
	if s := f.Stats(); s.Quarantined != 2 || s.Dead != 2 || s.Retried != 4 {
		f.t.Errorf("Stats = %+v, want 2 quarantined and 4 retried", s)
	}
}

// evidence looks at what is kept of a job that has killed three workers.
func (f *fixture) evidence(id string, o bullpen.Outcome) {
	f.t.Helper()
	i, err := f.GetDead(f.ctx(), id)
	if err != nil {
		f.t.Fatalf("GetDead = %v", err)
	}
	want := ends(o)
	if i.State != job.Dead || i.Outcome != o || i.Reason != job.Quarantined || i.Crashes != 3 || i.Attempts != 3 || i.Node != "here" ||
		string(i.Payload) != "p" || i.Meta["k"] != "v" || i.Stats.PeakMemory != peakMemory || len(i.History) != 3 {
		f.t.Fatalf("GetDead = %+v, want payload, meta, memory, 3 crashes and their history", i)
	}
	if len(i.Lines) == 0 || i.Lines[0].Text != "help" {
		f.t.Errorf("GetDead has the lines %+v, want what the handler logged", i.Lines)
	}
	for n, a := range i.History {
		if a.Number != n+1 || a.Outcome != o || a.Signal != want.Signal || a.PeakMemory != peakMemory || a.Worker != "executor" || a.Node != "here" || a.ExitCode != -1 {
			f.t.Errorf("attempt %d is %+v, want %v with signal, memory, worker and node", n+1, a, o)
		}
	}
}

// testBudgets has a job that fails and crashes by turns: each is counted by itself.
func testBudgets(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 3, Crashes: 3}})
	c := f.staff(1, func(_ context.Context, t bullpen.Task) ([]byte, error) {
		switch n := queue.AttemptOf(t).Attempt; {
		case n > 4:
			return nil, nil
		case n%2 == 0:
			return nil, ends(bullpen.Crashed)
		default:
			return nil, ends(bullpen.Failed)
		}
	})
	id := f.enqueue(job.Job{}).ID
	f.good(id)
	f.numbered(c, id, 5)
	if i := f.get(id); i.Attempts != 5 || i.Crashes != 2 {
		f.t.Errorf("Get = %+v, want 5 attempts and 2 crashes", i)
	}
}

func testAttemptOf(f *fixture) {
	f.open(queue.Config{})
	for _, c := range []struct {
		outcome     bullpen.Outcome
		redelivered bool
	}{{bullpen.Failed, false}, {bullpen.Timeout, false}, {bullpen.Crashed, true}, {bullpen.Memory, true}} {
		work := newExecutor(1, failing(1, ends(c.outcome)))
		f.work(f.Queue, work, queue.WorkConfig{Queue: c.outcome.String()})
		id := f.enqueue(job.Job{Queue: c.outcome.String()}).ID
		f.good(id)
		starts := f.numbered(work, id, 2)
		if starts[0].Redelivered || starts[1].Redelivered != c.redelivered {
			f.t.Errorf("after %v the handler received %+v and %+v, want redelivered %v of the second", c.outcome, starts[0].Delivered, starts[1].Delivered, c.redelivered)
		}
		if starts[1].Parent != "" || starts[1].Undoes != "" || starts[1].Task != "" {
			f.t.Errorf("the handler received %+v, want no parent", starts[1].Delivered)
		}
	}
}
