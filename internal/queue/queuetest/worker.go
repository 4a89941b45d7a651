package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// spare is how many jobs may wait in a hand beyond what the executor can start:
// one of each priority.
const spare = 3

// short is a handler that takes a moment.
func short(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	timer := time.NewTimer(500 * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil
}

func testBackPressure(f *fixture) {
	f.open(queue.Config{})
	ids := f.enqueueAll(jobs(400, job.Job{}))
	c := f.staff(4, short)
	for _, id := range ids {
		f.good(id)
	}
	if peak := c.peak.Load(); peak > 4+spare {
		f.t.Errorf("the executor had %d jobs at a time, want 4 and %d at most", peak, spare)
	}
}

func testBackPressureMixed(f *fixture) {
	f.open(queue.Config{})
	of := f.crowd(150)
	c := f.staff(4, short)
	for id := range of {
		f.good(id)
	}
	if peak := c.peak.Load(); peak > 2*4+spare {
		f.t.Errorf("the executor had %d jobs at a time, want twice 4 and %d at most", peak, spare)
	}
}

func testConcurrency(f *fixture) {
	f.open(queue.Config{})
	ids := f.enqueueAll(jobs(100, job.Job{}))
	c := newExecutor(16, short)
	f.work(f.Queue, c, queue.WorkConfig{Concurrency: 2})
	for _, id := range ids {
		f.good(id)
	}
	if peak := c.peak.Load(); peak > 2 {
		f.t.Errorf("the executor had %d jobs at a time, want Concurrency 2 at most", peak)
	}
}

// shared has two calls of Work run jobs of one queue.
func (f *fixture) shared(a, b *queue.Queue) {
	f.t.Helper()
	ids := f.enqueueAll(jobs(500, job.Job{}))
	first, second := newExecutor(4, short), newExecutor(4, short)
	f.work(a, first, queue.WorkConfig{})
	f.work(b, second, queue.WorkConfig{})
	ran := map[string]int{}
	for _, id := range ids {
		f.good(id)
	}
	for _, s := range slices.Concat(first.of(""), second.of("")) {
		ran[s.task.ID]++
		if s.Attempt != 1 || s.Redelivered {
			f.t.Errorf("a job received %+v, want its first attempt", s.Delivered)
		}
	}
	for _, id := range ids {
		if ran[id] != 1 {
			f.t.Errorf("job %s ran %d times, want once", id, ran[id])
		}
	}
	if n, m := len(first.of("")), len(second.of("")); n < 50 || m < 50 {
		f.t.Errorf("one ran %d jobs and the other %d, want both to take part", n, m)
	}
	f.once(ids...)
}

func testTwoWork(f *fixture) {
	f.open(queue.Config{})
	f.shared(f.Queue, f.Queue)
}

func testTwoNodes(f *fixture) {
	f.open(queue.Config{})
	f.shared(f.Queue, f.another())
}

func testGrace(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := newExecutor(2, g.handle)
	w := f.work(f.Queue, c, queue.WorkConfig{})
	ids := f.enqueueAll(jobs(2, job.Job{Payload: []byte("p")}))
	await(f, "one runs", g.started)
	await(f, "the other runs", g.started)
	w.cancel()
	after := f.enqueue(job.Job{}).ID
	f.pass(moment)
	select {
	case <-w.ended:
		f.t.Fatal("Work returned while jobs ran, want it to wait for Grace")
	default:
	}
	g.open()
	if err := w.wait(); err != nil {
		f.t.Errorf("Work = %v, want nil", err)
	}
	for _, id := range ids {
		if i := f.get(id); i.State != job.Done {
			f.t.Errorf("after Work a job is %v, want done: Work waits until the outcome is recorded", i.State)
		}
		f.numbered(c, id, 1)
	}
	if i := f.get(after); i.State != job.Queued || len(c.of(after)) != 0 {
		f.t.Errorf("a job that came after the end of ctx is %v, want it queued", i.State)
	}
}

// interrupted ends a call of Work whose jobs go on, and wants them to run again.
func (f *fixture) interrupted(grace time.Duration) {
	f.t.Helper()
	f.open(queue.Config{Retry: job.Retry{Attempts: 1, Crashes: 1, Nodes: 1}})
	g := newGate()
	first := newExecutor(2, g.handle)
	w := f.work(f.Queue, first, queue.WorkConfig{Grace: grace})
	ids := f.enqueueAll(jobs(2, job.Job{Payload: []byte("p")}))
	await(f, "one runs", g.started)
	await(f, "the other runs", g.started)
	begin := time.Now()
	w.stop()
	if d := time.Since(begin); d < grace || d > grace+5*time.Second {
		f.t.Errorf("Work returned %v after the end of ctx, want about Grace %v", d, grace)
	}
	for _, id := range ids {
		if i := f.get(id); i.State.Ended() || i.Attempts != 1 {
			f.t.Errorf("Get = %+v, want it to wait for its second attempt", i)
		}
	}
	second := f.staff(2, echo)
	for _, id := range ids {
		f.good(id)
		if s := second.of(id); len(s) != 1 || s[0].Attempt != 2 {
			f.t.Errorf("elsewhere it started %+v, want attempt 2", s)
		}
		if i := f.get(id); i.Attempts != 2 || i.Crashes != 0 || i.State != job.Done {
			f.t.Errorf("Get = %+v, want done at the second attempt", i)
		}
	}
}

func testGraceEnds(f *fixture) { f.interrupted(100 * time.Millisecond) }

func testNoGrace(f *fixture) { f.interrupted(-1) }

// testCloseGivesBack closes the queue while it hands out jobs that are looked up
// first, as those with a key are, and while some run. Of a store that this node is
// alone on all are there again at once; others may have to wait for the lease of a
// job that did not come back in time.
func testCloseGivesBack(f *fixture) {
	lease := longLease
	if f.subject.OneNode == "" {
		lease = f.subject.Lease
	}
	f.open(queue.Config{Lease: lease})
	deaf := make(chan struct{})
	defer close(deaf)
	var ids []string
	for round := range 5 {
		begun := make(chan struct{}, 64)
		f.staff(6, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			begun <- struct{}{}
			switch t.Name {
			case "long":
				<-ctx.Done()
			case "deaf":
				<-deaf
			}
			return nil, context.Cause(ctx)
		})
		for i := range 12 {
			j := job.Job{Key: fmt.Sprintf("%d-%d", round, i)}
			switch {
			case i%4 == 3:
				j.Name = "long"
			case i == 5 && round == 2:
				j.Name = "deaf"
			}
			ids = append(ids, f.enqueue(j).ID)
		}
		await(f, "one has begun", begun)
		f.reopen()
	}
	f.staff(4, echo)
	for _, id := range ids {
		f.good(id)
	}
}

// testCloseWorking closes the queue under a call of Work. Nothing is lost, and
// all ends once.
func testCloseWorking(f *fixture) {
	f.open(queue.Config{Lease: f.subject.Lease})
	var n atomic.Int64
	busy := make(chan struct{})
	first := newExecutor(16, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if n.Add(1) == 40 {
			close(busy)
		}
		if t.Name == "long" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return short(ctx, t)
	})
	ids := f.enqueueAll(slices.Concat(jobs(20, job.Job{}), jobs(10, job.Job{Name: "long"}), jobs(300, job.Job{})))
	w := f.work(f.Queue, first, queue.WorkConfig{})
	await(f, "it is in the midst of work", busy)
	begin := time.Now()
	f.shut(f.Queue)
	if d := time.Since(begin); d > 20*time.Second {
		f.t.Errorf("Close took %v in the midst of work, want it not to wait for what runs", d)
	}
	if err := w.wait(); !errors.Is(err, job.ErrClosed) {
		f.t.Errorf("Work = %v, want ErrClosed after Close", err)
	}
	f.Queue = f.another()
	before := map[string]bool{}
	for id := range f.once() {
		before[id] = true
	}
	second := f.staff(16, short)
	for _, id := range ids {
		f.good(id)
		if before[id] && len(second.of(id)) > 0 {
			f.t.Errorf("job %s ran again although its outcome was recorded", id)
		}
	}
	if all := f.once(ids...); len(all) != len(ids) {
		f.t.Errorf("%d outcomes are recorded of %d jobs", len(all), len(ids))
	}
	f.empty()
}

func testReopen(f *fixture) {
	f.open(queue.Config{})
	w := f.work(f.Queue, newExecutor(4, byName(newGate())), queue.WorkConfig{})
	done := f.enqueue(job.Job{Payload: []byte("p")}).ID
	f.good(done)
	bad := f.enqueue(job.Job{Name: "fail"}).ID
	f.bad(bad, bullpen.Failed, job.Final)
	w.stop()
	waiting := f.enqueue(job.Job{Payload: []byte("w")}).ID
	scheduled := f.enqueue(job.Job{Payload: []byte("s"), Delay: 300 * time.Millisecond}).ID
	f.reopen()
	if r := f.good(done); string(r.Payload) != "p" {
		f.t.Errorf("after a restart the result is %q, want p", r.Payload)
	}
	f.bad(bad, bullpen.Failed, job.Final)
	if i := f.get(waiting); i.State != job.Queued || string(i.Payload) != "w" {
		f.t.Errorf("after a restart Get = %+v, want it queued", i)
	}
	c := f.staff(2, echo)
	if string(f.good(waiting).Payload) != "w" || string(f.good(scheduled).Payload) != "s" {
		f.t.Error("after a restart the results are not those of the jobs")
	}
	if n := len(c.of("")); n != 2 {
		f.t.Errorf("after a restart %d jobs ran, want 2", n)
	}
}
