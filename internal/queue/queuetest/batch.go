package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// together are the clauses on chains and batches.
func together() []clause {
	return []clause{
		{name: "Chain", test: testChain},
		{name: "ChainEndsAtAFailure", test: testChainFails},
		{name: "ChainAcrossNodes", test: testChainNodes, nodes: true},
		{name: "Batch", test: testBatch},
		{name: "BatchOnce", test: testBatchOnce},
		{name: "BatchInPieces", test: testBatchPieces},
		{name: "BatchCanceled", test: testBatchCanceled},
		{name: "BatchSurvivesReopen", test: testBatchReopen},
		{name: "BatchAcrossNodes", test: testBatchNodes, nodes: true},
		{name: "BatchTakenOver", test: testBatchTakenOver, nodes: true},
	}
}

// says answers with the payload and the name of the task, and fails for good where
// the name says so, but for a job that is tried again.
func says(_ context.Context, t bullpen.Task) ([]byte, error) {
	if t.Name == "fails" && queue.AttemptOf(t).Parent == "" {
		return nil, bullpen.Fail("no", false)
	}
	return append(slices.Clone(t.Payload), t.Name...), nil
}

func (f *fixture) chain(jobs ...job.Job) string {
	f.t.Helper()
	ref, err := f.EnqueueChain(f.ctx(), jobs...)
	if err != nil {
		f.t.Fatalf("EnqueueChain = %v", err)
	}
	return ref.ID
}

func (f *fixture) chained(id, want string) {
	f.t.Helper()
	if r, err := f.WaitChain(f.ctx(), id); err != nil || string(r.Payload) != want {
		f.t.Errorf("WaitChain = %q, %v, want %q", r.Payload, err, want)
	}
}

func testChain(f *fixture) {
	f.open(queue.Config{})
	id := f.chain(job.Job{Name: "a", Payload: []byte("-")}, job.Job{Queue: "other", Name: "b"}, job.Job{Name: "c", Delay: 20 * time.Millisecond})
	c := newExecutor(2, says)
	f.work(f.Queue, c, queue.WorkConfig{})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "other"})
	f.chained(id, "-abc")
	ids := []string{id}
	for i := f.get(id); i.Next != ""; i = f.get(i.Next) {
		ids = append(ids, i.Next)
	}
	if len(ids) != 3 {
		f.t.Fatalf("the chain is %v, want three jobs", ids)
	}
	for i, s := range c.of("") {
		if s.Chain != id || s.Link != i+1 || s.task.ID != ids[i] {
			f.t.Errorf("job %d received %+v, want link %d of %s", i, s.Delivered, i+1, id)
		}
	}
	if q := f.get(ids[1]).Queue; q != "other" {
		f.t.Errorf("the second job is in queue %q, want other", q)
	}
	if q := f.get(ids[2]).Queue; q != "other" {
		f.t.Errorf("the third job is in queue %q, want that of the one before", q)
	}
	f.once(ids...)
}

func testChainFails(f *fixture) {
	f.open(queue.Config{})
	f.staff(1, says)
	id := f.chain(job.Job{Name: "a"}, job.Job{Name: "fails"}, job.Job{Name: "c"})
	_, err := f.WaitChain(f.ctx(), id)
	var end *job.EndError
	if !errors.As(err, &end) || end.ID == id || end.Outcome != bullpen.Failed {
		f.t.Fatalf("WaitChain = %v, want the failure of the second job", err)
	}
	f.reopen()
	f.work(f.Queue, newExecutor(1, says), queue.WorkConfig{})
	again, err := f.RetryDead(f.ctx(), end.ID)
	if err != nil {
		f.t.Fatalf("RetryDead = %v", err)
	}
	f.chained(again.ID, "afailsc")
}

func testChainNodes(f *fixture) {
	f.open(queue.Config{})
	other := f.another()
	var all []job.Job
	for i := range 8 {
		all = append(all, job.Job{Name: fmt.Sprint(i), Queue: []string{"default", "other"}[i%2]})
	}
	id := f.chain(all...)
	f.work(f.Queue, newExecutor(1, says), queue.WorkConfig{})
	f.work(other, newExecutor(1, says), queue.WorkConfig{Queue: "other"})
	f.chained(id, "01234567")
	if r, err := other.WaitChain(f.ctx(), id); err != nil || string(r.Payload) != "01234567" {
		f.t.Errorf("WaitChain on another node = %q, %v", r.Payload, err)
	}
}

// batch enqueues a batch, which must succeed.
func (f *fixture) batch(b job.Batch, all []job.Job) job.BatchInfo {
	f.t.Helper()
	i, err := f.EnqueueBatch(f.ctx(), b, all)
	if err != nil {
		f.t.Fatalf("EnqueueBatch = %v", err)
	}
	return i
}

// whole waits for the end of a batch.
func (f *fixture) whole(q *queue.Queue, id string) job.BatchInfo {
	f.t.Helper()
	i, err := q.WaitBatch(f.ctx(), id)
	if err != nil {
		now, err2 := q.GetBatch(f.t.Context(), id)
		f.t.Fatalf("WaitBatch = %v; it is %+v, %v", err, now, err2)
	}
	if i.Ended != i.Total || i.EndedAt.IsZero() || !i.HasEnded() {
		f.t.Errorf("WaitBatch gives %+v, want it ended", i)
	}
	return i
}

// callbacks are both callbacks of a batch.
func callbacks(b job.Batch) job.Batch {
	b.Then, b.Failed = &job.Job{Name: "then"}, &job.Job{Name: "failed"}
	return b
}

// called checks that the callbacks ran once each, by name.
func (f *fixture) called(want map[string]int, executors ...*executor) {
	f.t.Helper()
	got := make(map[string]int)
	for _, c := range executors {
		for _, s := range c.of("") {
			if n := s.task.Name; n == "then" || n == "failed" {
				got[n]++
			}
		}
	}
	if !maps.Equal(got, want) {
		f.t.Errorf("the callbacks ran %v times, want %v", got, want)
	}
}

func testBatch(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(4, says)
	all := append(jobs(90, job.Job{Name: "good"}), jobs(10, job.Job{Name: "fails"})...)
	id := f.batch(callbacks(job.Batch{Meta: map[string]string{"a": "b"}}), all).ID
	i := f.whole(f.Queue, id)
	if i.State != job.BatchDone || i.Total != 100 || i.OK != 90 || i.Failed != 10 || i.Meta["a"] != "b" {
		f.t.Errorf("the batch is %+v, want 90 good and 10 failed", i)
	}
	f.good(i.ThenID)
	f.good(i.FailedID)
	f.bad(i.FirstFailed, bullpen.Failed, job.Final)
	f.called(map[string]int{"then": 1, "failed": 1}, c)
	// Another try of a member is none of the batch's.
	again, err := f.RetryDead(f.ctx(), i.FirstFailed)
	if err != nil {
		f.t.Fatalf("RetryDead = %v", err)
	}
	f.good(again.ID)
	if b := f.get(again.ID).Batch; b != "" {
		f.t.Errorf("the new job is of batch %s, want of none", b)
	}
	if after := f.whole(f.Queue, id); after.Failed != 10 {
		f.t.Errorf("after another try the batch is %+v", after)
	}
}

func testBatchOnce(f *fixture) {
	f.open(queue.Config{})
	b := callbacks(job.Batch{Key: "k"})
	first := f.batch(b, jobs(20, job.Job{}))
	if again := f.batch(b, jobs(20, job.Job{})); again.ID != first.ID || !again.Existing || first.Existing {
		f.t.Errorf("EnqueueBatch again = %+v, want the first, %s", again, first.ID)
	}
	c := f.staff(4, says)
	i := f.whole(f.Queue, first.ID)
	f.good(i.ThenID)
	if i = f.batch(b, jobs(20, job.Job{})); !i.Existing || i.OK != 20 || i.FailedID != "" {
		f.t.Errorf("EnqueueBatch after the end = %+v, want the first with 20 good", i)
	}
	f.called(map[string]int{"then": 1}, c)
	if n := len(c.of("")); n != 21 {
		f.t.Errorf("%d jobs ran, want 20 and the callback", n)
	}
}

func testBatchPieces(f *fixture) {
	f.open(queue.Config{})
	c := f.staff(4, says)
	b, err := f.OpenBatch(f.ctx(), callbacks(job.Batch{}))
	if err != nil {
		f.t.Fatalf("OpenBatch = %v", err)
	}
	add := func(from, n int) {
		f.t.Helper()
		if refs, err := f.AddToBatch(f.ctx(), b.ID, from, jobs(n, job.Job{})); err != nil || len(refs) != n {
			f.t.Fatalf("AddToBatch = %d refs, %v", len(refs), err)
		}
	}
	add(0, 50)
	f.eventually("50 have ended", func() bool {
		i, err := f.GetBatch(f.ctx(), b.ID)
		return err == nil && i.State == job.BatchOpen && i.OK == 50
	})
	add(0, 50) // again, after they have ended
	add(60, 10)
	if _, err := f.SealBatch(f.ctx(), b.ID, 70); !errors.Is(err, job.ErrIncomplete) {
		f.t.Errorf("SealBatch with members missing = %v, want ErrIncomplete", err)
	}
	f.reopen()
	add(45, 15)
	more := newExecutor(4, says)
	f.work(f.Queue, more, queue.WorkConfig{})
	if _, err := f.SealBatch(f.ctx(), b.ID, 70); err != nil {
		f.t.Fatalf("SealBatch = %v", err)
	}
	i := f.whole(f.Queue, b.ID)
	f.good(i.ThenID)
	if i.OK != 70 {
		f.t.Errorf("the batch is %+v, want 70 good", i)
	}
	f.called(map[string]int{"then": 1}, c, more)
	ran := make(map[string]int)
	for _, s := range slices.Concat(c.of(""), more.of("")) {
		if ran[s.task.ID]++; ran[s.task.ID] > 1 {
			f.t.Errorf("member %d ran again", s.Index)
		}
	}
}

func testBatchCanceled(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	defer g.open()
	c := f.staff(2, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.Name != "" {
			return nil, nil
		}
		return g.handle(ctx, t)
	})
	id := f.batch(callbacks(job.Batch{}), jobs(50, job.Job{})).ID
	await(f, "a member runs", g.started)
	if i, err := f.CancelBatch(f.ctx(), id); err != nil || i.State != job.BatchCanceled {
		f.t.Fatalf("CancelBatch = %+v, %v", i, err)
	}
	i := f.whole(f.Queue, id)
	if i.State != job.BatchCanceled || i.Canceled != 50 {
		f.t.Errorf("the batch is %+v, want 50 canceled", i)
	}
	f.good(i.ThenID)
	f.called(map[string]int{"then": 1}, c)
	if _, err := f.CancelBatch(f.ctx(), id); !errors.Is(err, job.ErrEnded) {
		f.t.Errorf("CancelBatch again = %v, want ErrEnded", err)
	}
}

func testBatchReopen(f *fixture) {
	f.open(queue.Config{})
	id := f.batch(callbacks(job.Batch{}), jobs(400, job.Job{})).ID
	c := newExecutor(4, short)
	w := f.work(f.Queue, c, queue.WorkConfig{})
	f.eventually("some have ended", func() bool {
		i, err := f.GetBatch(f.ctx(), id)
		return err == nil && i.OK > 100
	})
	w.stop()
	f.reopen()
	again := newExecutor(4, short)
	f.work(f.Queue, again, queue.WorkConfig{})
	i := f.whole(f.Queue, id)
	if i.OK != 400 || i.Lost != 0 {
		f.t.Errorf("the batch is %+v, want 400 good", i)
	}
	f.good(i.ThenID)
	f.called(map[string]int{"then": 1}, c, again)
}

func testBatchNodes(f *fixture) {
	f.open(queue.Config{})
	nodes := []*queue.Queue{f.Queue, f.another(), f.another()}
	var executors []*executor
	for _, q := range nodes {
		c := newExecutor(2, says)
		executors = append(executors, c)
		f.work(q, c, queue.WorkConfig{})
	}
	all := append(jobs(290, job.Job{Name: "good"}), jobs(10, job.Job{Name: "fails"})...)
	id := f.batch(callbacks(job.Batch{}), all).ID
	for _, q := range nodes {
		if i := f.whole(q, id); i.OK != 290 || i.Failed != 10 || i.State != job.BatchDone {
			f.t.Errorf("the batch is %+v, want 290 good and 10 failed", i)
		}
	}
	i := f.whole(f.Queue, id)
	f.good(i.ThenID)
	f.good(i.FailedID)
	f.called(map[string]int{"then": 1, "failed": 1}, executors...)
}

// testBatchTakenOver has the node that made a batch go away, and one finish it that
// had nothing to do with it.
func testBatchTakenOver(f *fixture) {
	f.open(queue.Config{})
	other := f.another()
	id := f.batch(callbacks(job.Batch{}), jobs(40, job.Job{})).ID
	var ran atomic.Int32
	w := f.work(f.Queue, newExecutor(1, func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
		if ran.Add(1) > 10 {
			<-ctx.Done()
		}
		return nil, ctx.Err()
	}), queue.WorkConfig{Grace: -1})
	f.eventually("ten have ended", func() bool {
		i, err := other.GetBatch(f.ctx(), id)
		return err == nil && i.OK == 10
	})
	w.stop()
	f.shut(f.Queue)
	c := newExecutor(2, short)
	f.work(other, c, queue.WorkConfig{})
	i := f.whole(other, id)
	if i.OK != 40 {
		f.t.Errorf("the batch is %+v, want 40 good", i)
	}
	if _, err := other.Wait(f.ctx(), i.ThenID); err != nil {
		f.t.Errorf("the callback ended %v", err)
	}
	f.called(map[string]int{"then": 1}, c)
}
