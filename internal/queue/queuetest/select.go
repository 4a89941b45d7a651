package queuetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// ids gives those of all jobs that a filter selects, in the order of the list.
func (f *fixture) ids(filter job.Filter) []string {
	f.t.Helper()
	var ids []string
	for _, i := range f.list(filter) {
		if i.Payload != nil || i.Result != nil {
			f.t.Errorf("List gives job %s with its payload or result, want their sizes only", i.ID)
		}
		ids = append(ids, i.ID)
	}
	return ids
}

func testListNewest(f *fixture) {
	f.open(queue.Config{})
	var want []string
	for i := range 30 {
		want = append(want, f.enqueue(job.Job{Queue: "a", Name: fmt.Sprint("n", i%2), Payload: []byte("123")}).ID)
	}
	want = append(want, f.enqueue(job.Job{Queue: "a", Delay: time.Hour}).ID)
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 7, 1000} {
		if got := f.ids(job.Filter{States: inQueue, Newest: true, Limit: limit}); !slices.Equal(got, want[1:]) {
			f.t.Errorf("List of the newest in pages of %d gives %v, want the 30 jobs from the last to the first", limit, got)
		}
	}
	if got := f.ids(job.Filter{States: laterOnes, Newest: true}); !slices.Equal(got, want[:1]) {
		f.t.Errorf("List of the newest that are scheduled gives %v, want one", got)
	}
	for _, limit := range []int{0, 1, 7} {
		for _, states := range [][]job.State{nil, {job.Queued, job.Scheduled}, {job.Queued, job.Dead, job.Scheduled}} {
			if got := f.ids(job.Filter{States: states, Newest: true, Limit: limit}); !slices.Equal(got, want) {
				f.t.Errorf("List of the newest that are %v in pages of %d gives %v, want all from the last to the first", states, limit, got)
			}
		}
	}
	odd := f.list(job.Filter{States: inQueue, Newest: true, Name: "n1", Limit: 4})
	if len(odd) != 15 || odd[0].ID != want[1] || odd[14].ID != want[29] || odd[0].PayloadSize != 3 {
		f.t.Errorf("List of the newest n1 gives %d jobs, want 15 with the sizes of their payloads", len(odd))
	}
	f.work(f.Queue, newExecutor(1, echo), queue.WorkConfig{Queue: "a"})
	for _, id := range want[1:] {
		f.good(id)
	}
	got := f.ids(job.Filter{States: ended, Newest: true, Limit: 4})
	back := f.ids(job.Filter{States: ended})
	if slices.Reverse(back); len(got) != 30 || !slices.Equal(got, back) {
		f.t.Errorf("List of the newest that have ended gives %d jobs, want the list turned round", len(got))
	}
	last := f.enqueue(job.Job{Queue: "a", Delay: time.Hour}).ID
	if got := f.ids(job.Filter{States: []job.State{job.Scheduled, job.Done}, Newest: true, Limit: 4}); len(got) != 32 || got[0] != last || !slices.Equal(got[1:31], back) {
		f.t.Errorf("List of the newest that are scheduled or done gives %v, want the scheduled %s, the 30 that are done, the other scheduled one", got, last)
	}
}

func testListSelects(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 1}})
	begin := time.Now()
	waits := f.enqueue(job.Job{Queue: "idle", Name: "Resize", Key: "Order-17"}).ID
	f.staff(1, byName(nil))
	failed := f.enqueue(job.Job{Name: "fail"}).ID
	f.bad(failed, bullpen.Failed, job.Final)
	retried := f.enqueue(job.Job{Name: "retry", Key: "k\u00d6"}).ID
	f.bad(retried, bullpen.Failed, job.Exhausted)
	f.pass(5 * time.Millisecond)
	middle := time.Now()
	f.pass(5 * time.Millisecond)
	expired := f.enqueue(job.Job{Name: "late", Deadline: time.Now()}).ID
	f.bad(expired, bullpen.Timeout, job.Expired)
	good := f.enqueue(job.Job{Name: "ok"}).ID
	f.good(good)
	causes := f.causes(job.Filter{Name: "late"})
	if len(causes) != 1 {
		f.t.Fatalf("DeadCauses = %+v, want one", causes)
	}
	cause := causes[0].Fingerprint
	for _, c := range []struct {
		filter job.Filter
		want   []string
	}{
		{job.Filter{States: inQueue, Search: "RESIZE"}, []string{waits}},
		{job.Filter{States: inQueue, Search: "order-1"}, []string{waits}},
		{job.Filter{States: inQueue, Search: strings.ToLower(waits[5:])}, []string{waits}},
		{job.Filter{States: inQueue, Search: "order-18"}, nil},
		{job.Filter{States: inQueue, Since: begin.Add(-time.Second), Before: middle}, []string{waits}},
		{job.Filter{States: inQueue, Since: middle}, nil},
		{job.Filter{States: inQueue, Reason: job.Final}, nil},
		{job.Filter{States: deadOnes, Search: "Later"}, []string{retried}}, // the text of its error
		{job.Filter{States: deadOnes, Search: "K\u00f6"}, []string{retried}},
		{job.Filter{States: deadOnes, Reason: job.Final}, []string{failed}},
		{job.Filter{States: deadOnes, Outcome: "failed"}, []string{failed, retried}},
		{job.Filter{States: deadOnes, Outcome: "failed", Newest: true}, []string{retried, failed}},
		{job.Filter{States: deadOnes, Outcome: "timeout"}, []string{expired}},
		{job.Filter{States: deadOnes, Since: middle}, []string{expired}},
		{job.Filter{States: deadOnes, Since: middle, Newest: true}, []string{expired}},
		{job.Filter{States: deadOnes, Before: middle}, []string{failed, retried}},
		{job.Filter{States: deadOnes, Since: time.Now().Add(time.Hour), Newest: true}, nil},
		{job.Filter{States: deadOnes, Cause: cause}, []string{expired}},
		{job.Filter{States: ended, Outcome: "ok"}, []string{good}},
		{job.Filter{States: ended, Name: "ok", Since: middle}, []string{good}},
	} {
		if got := f.ids(c.filter); !slices.Equal(got, c.want) {
			f.t.Errorf("List %+v gives %v, want %v", c.filter, got, c.want)
		}
	}
	for _, bad := range []job.Filter{
		{Queue: "A B"}, {Outcome: "bad"}, {Cause: "xyz"}, {Cause: strings.Repeat("A", 12)}, {Search: strings.Repeat("x", 300)}, {Since: middle, Before: begin},
	} {
		if p, err := f.List(f.ctx(), bad); err == nil {
			f.t.Errorf("List %+v gives %+v, want it refused", bad, p)
		}
	}
}

func testCounts(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 1}})
	g := newGate()
	f.work(f.Queue, newExecutor(1, byName(g)), queue.WorkConfig{Queue: "a", Concurrency: 1})
	for range 3 {
		f.bad(f.enqueue(job.Job{Queue: "a", Name: "fail"}).ID, bullpen.Failed, job.Final)
	}
	running := f.enqueue(job.Job{Queue: "a", Name: "gate"}).ID
	await(f, "it runs", g.started)
	begin := time.Now()
	for i := range 5 {
		f.enqueue(job.Job{Queue: "a", Priority: job.Priority(i % 3)})
	}
	f.enqueue(job.Job{Queue: "a", Delay: time.Hour})
	f.enqueue(job.Job{Queue: "b"})
	var c job.Counts
	f.eventually("what waits is counted", func() bool {
		var err error
		if c, err = f.Counts(f.ctx(), "a"); err != nil {
			f.t.Fatalf("Counts = %v", err)
		}
		return c.Waiting+c.Taken == 6 && c.Dead == 3
	})
	if c.Taken < 1 || c.Paused || c.Oldest.After(begin) || c.Oldest.IsZero() {
		f.t.Errorf("Counts = %+v, want one taken at least, and the oldest", c)
	}
	if n, err := f.Scheduled(f.ctx()); n != 1 || err != nil {
		f.t.Errorf("Scheduled = %d, %v, want 1", n, err)
	}
	g.open()
	f.good(running)
}

// causes gives the causes of all dead jobs that a filter selects.
func (f *fixture) causes(filter job.Filter) []job.Cause {
	f.t.Helper()
	c, err := f.DeadCauses(f.ctx(), filter)
	if err != nil || c.More {
		f.t.Fatalf("DeadCauses = %+v, %v, want all causes", c, err)
	}
	return c.Causes
}

func testDeadCauses(f *fixture) {
	f.open(queue.Config{})
	c := newExecutor(2, func(_ context.Context, t bullpen.Task) ([]byte, error) {
		return nil, bullpen.Fail(fmt.Sprintf("no answer from %q after %s tries\nand more", t.Payload, t.Payload), false)
	})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "a"})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "b"})
	var ids []string
	for i := range 9 {
		j := job.Job{Queue: "a", Name: "call", Payload: fmt.Append(nil, i*7)}
		if i >= 6 {
			j.Queue = "b"
		}
		ids = append(ids, f.enqueue(j).ID)
		f.bad(ids[i], bullpen.Failed, job.Final)
	}
	all := f.causes(job.Filter{})
	if len(all) != 2 {
		f.t.Fatalf("DeadCauses = %+v, want one of each queue", all)
	}
	most := all[0]
	if most.Count != 6 || most.Queue != "a" || most.Name != "call" || most.Reason != job.Final || most.Outcome != bullpen.Failed ||
		most.Sample != ids[5] || !most.First.Before(most.Last) || most.Error != `no answer from "…" after # tries` || all[1].Count != 3 {
		f.t.Errorf("DeadCauses = %+v, want the 6 of a first, with the error of all of them", all)
	}
	if got := f.dead(job.Filter{Cause: most.Fingerprint}); !slices.Equal(got, ids[:6]) {
		f.t.Errorf("ListDead of a cause gives %v, want its 6", got)
	}
	if b := f.causes(job.Filter{Queue: "b"}); len(b) != 1 || b[0] != all[1] {
		f.t.Errorf("DeadCauses of b = %+v, want %+v", b, all[1])
	}
}

func testRetryDeadAll(f *fixture) {
	f.open(queue.Config{})
	c := newExecutor(4, fails)
	f.work(f.Queue, c, queue.WorkConfig{Queue: "a"})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "b"})
	const n = 20
	for i := range 2 * n {
		f.bad(f.enqueue(job.Job{Queue: []string{"a", "b"}[i%2], Name: "work", Payload: fmt.Append(nil, i)}).ID, bullpen.Failed, job.Final)
	}
	done, err := f.RetryDeadAll(f.ctx(), job.Filter{Queue: "a"}, 5)
	if err != nil || done.Count != 5 || done.Failed != nil || !done.More {
		f.t.Fatalf("RetryDeadAll of 5 = %+v, %v, want 5 and more", done, err)
	}
	done, err = f.RetryDeadAll(f.ctx(), job.Filter{Queue: "a", After: done.Next}, 0)
	if err != nil || done.Count != n-5 || done.Failed != nil || done.More {
		f.t.Fatalf("RetryDeadAll of the rest = %+v, %v, want %d and no more", done, err, n-5)
	}
	if got := f.dead(job.Filter{}); len(got) != n {
		f.t.Errorf("%d jobs are dead, want the %d of b", len(got), n)
	}
	f.eventually("each ran again", func() bool { return f.QueueStats("a").Ended[bullpen.OK] == n })
	f.pass(moment)
	if ran := len(c.of("")); ran != 3*n {
		f.t.Errorf("%d attempts started, want %d: each dead job once more", ran, 3*n)
	}
	if done, err := f.RetryDeadAll(f.ctx(), job.Filter{Queue: "none"}, 0); err != nil || done.Count != 0 || done.More {
		f.t.Errorf("RetryDeadAll of none = %+v, %v", done, err)
	}
	if done, err := f.RetryDeadAll(f.ctx(), job.Filter{Cause: "?"}, 0); err == nil {
		f.t.Errorf("RetryDeadAll with a wrong filter = %+v, want it refused", done)
	}
}

// testRetryDeadAllRace has callers retry all dead jobs, again and again, while jobs
// die, and wants each of them enqueued again once.
func testRetryDeadAllRace(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(8, fails)
	const n, callers = 200, 3
	var enqueuing, retrying sync.WaitGroup
	enough := make(chan struct{})
	for range callers {
		retrying.Go(func() {
			for {
				if done, err := f.RetryDeadAll(f.t.Context(), job.Filter{Newest: f.QueueStats("default").Dead%2 == 0}, 7); err != nil || len(done.Failed) > 0 {
					f.t.Errorf("RetryDeadAll = %+v, %v", done, err)
					return
				}
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	enqueuing.Go(func() {
		for i := range n {
			if _, err := f.Enqueue(f.t.Context(), job.Job{Payload: fmt.Append(nil, i)}); err != nil {
				f.t.Errorf("Enqueue = %v", err)
			}
		}
	})
	enqueuing.Wait()
	f.eventually("each ran twice", func() bool { return f.QueueStats("default").Ended[bullpen.OK] >= n })
	close(enough)
	retrying.Wait()
	f.pass(moment)
	again := map[string]int{}
	for _, s := range c.of("") {
		if s.Parent != "" {
			again[s.Parent]++
		}
	}
	for parent, times := range again {
		if times != 1 {
			f.t.Errorf("dead job %s was tried again %d times, want once", parent, times)
		}
	}
	if got := f.dead(job.Filter{}); len(again) != n || len(got) != 0 {
		f.t.Errorf("%d dead jobs were tried again and %d are left, want %d and none", len(again), len(got), n)
	}
}

func testRemoveDeadAll(f *fixture) {
	f.open(queue.Config{})
	f.staff(2, fails)
	var ids []string
	for i := range 10 {
		ids = append(ids, f.enqueue(job.Job{Name: fmt.Sprint("n", i%2)}).ID)
		f.bad(ids[i], bullpen.Failed, job.Final)
	}
	if done, err := f.RemoveDeadAll(f.ctx(), job.Filter{Name: "n1", Newest: true}, 2); err != nil || done.Count != 2 || !done.More {
		f.t.Errorf("RemoveDeadAll of 2 = %+v, %v, want 2 and more", done, err)
	}
	if got := f.dead(job.Filter{Name: "n1"}); !slices.Equal(got, []string{ids[1], ids[3], ids[5]}) {
		f.t.Errorf("after the two newest were removed %v are left", got)
	}
	if done, err := f.RemoveDeadAll(f.ctx(), job.Filter{}, 0); err != nil || done.Count != 8 || done.More {
		f.t.Errorf("RemoveDeadAll = %+v, %v, want 8", done, err)
	}
	if got := f.dead(job.Filter{}); len(got) != 0 {
		f.t.Errorf("%v are left, want none", got)
	}
}
