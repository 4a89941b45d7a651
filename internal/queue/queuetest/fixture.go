package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// Patience bounds every wait of the suite: a queue that takes longer hangs. It is
// shorter than the lease of clauses that are not about leases.
var Patience = 30 * time.Second

const (
	// longLease is for clauses in which no lease ends.
	longLease = 5 * time.Minute
	// moment is how long a clause waits for what must not happen.
	moment = 150 * time.Millisecond
	// late is how much later than it should something may happen by itself.
	late = 5 * time.Second
)

// Open is queue.Open for a [Subject], which has set c.Store.
func Open(t *testing.T, c queue.Config) *queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	q, err := queue.Open(ctx, c)
	if err != nil {
		t.Fatalf("Open = %v, want a queue", err)
	}
	return q
}

// fixture is a namespace under test, and the queue that is open on it.
type fixture struct {
	*queue.Queue

	t       *testing.T
	subject Subject
	config  queue.Config
}

func newFixture(t *testing.T, s Subject) *fixture {
	t.Helper()
	return &fixture{t: t, subject: s}
}

// open opens the first queue of the clause. It is closed at the end.
func (f *fixture) open(c queue.Config) {
	f.t.Helper()
	c.Namespace = newNamespace()
	if c.Lease == 0 {
		c.Lease = longLease
	}
	if c.Retry.Backoff == 0 {
		c.Retry.Backoff = 10 * time.Millisecond
	}
	f.config = c
	f.Queue = f.another()
}

// another opens one more queue on the same namespace, as another node does. It is
// closed at the end.
func (f *fixture) another() *queue.Queue {
	f.t.Helper()
	q := f.subject.Open(f.t, f.config)
	f.t.Cleanup(func() { f.shut(q) })
	return q
}

func (f *fixture) shut(q *queue.Queue) {
	f.t.Helper()
	if err := f.within("Close", q.Close); err != nil {
		f.t.Errorf("Close = %v, want nil", err)
	}
}

// reopen closes the queue and opens another, as a program does that is started
// again.
func (f *fixture) reopen() {
	f.t.Helper()
	f.shut(f.Queue)
	f.Queue = f.another()
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), Patience)
	f.t.Cleanup(cancel)
	return ctx
}

// enqueue enqueues a job, which must succeed.
func (f *fixture) enqueue(j job.Job) job.Ref {
	f.t.Helper()
	ref, err := f.Enqueue(f.ctx(), j)
	if err != nil || ref.ID == "" {
		f.t.Fatalf("Enqueue %q = %+v, %v, want it enqueued", j.Name, ref, err)
	}
	return ref
}

// enqueueAll enqueues jobs, which must succeed, and returns their ids.
func (f *fixture) enqueueAll(jobs []job.Job) []string {
	f.t.Helper()
	refs, err := f.EnqueueAll(f.ctx(), jobs)
	if err != nil || len(refs) != len(jobs) {
		f.t.Fatalf("EnqueueAll of %d = %d refs, %v, want all enqueued", len(jobs), len(refs), err)
	}
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	return ids
}

// jobs gives n jobs of one task.
func jobs(n int, j job.Job) []job.Job {
	all := make([]job.Job, n)
	for i := range all {
		all[i] = j
	}
	return all
}

// wait waits for the end of a job, on any node.
func (f *fixture) wait(id string) (bullpen.Result, error) {
	f.t.Helper()
	r, err := f.Wait(f.ctx(), id)
	var end *job.EndError
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &end) {
		info, err2 := f.Get(f.t.Context(), id)
		depth, err3 := f.Depth(f.t.Context(), "default")
		f.t.Fatalf("job %s has not ended within %v: %v; it is %+v, %v; the queue has %+v, %v, this node %+v",
			id, Patience, err, info, err2, depth, err3, f.Stats())
	}
	return r, err
}

// good waits for a job that must end well.
func (f *fixture) good(id string) bullpen.Result {
	f.t.Helper()
	r, err := f.wait(id)
	if err != nil {
		f.t.Fatalf("Wait for %s = %v, want a good end", id, err)
	}
	return r
}

// bad waits for a job that must end with an outcome and a reason.
func (f *fixture) bad(id string, outcome bullpen.Outcome, reason job.Reason) job.EndError {
	f.t.Helper()
	_, err := f.wait(id)
	var end *job.EndError
	if !errors.As(err, &end) {
		f.t.Fatalf("Wait for %s = %v, want an *EndError: %v, %s", id, err, outcome, reason)
	}
	if end.ID != id || end.Outcome != outcome || end.Reason != reason {
		f.t.Fatalf("Wait for %s = %+v, want outcome %v and reason %q", id, *end, outcome, reason)
	}
	return *end
}

func (f *fixture) get(id string) *job.Info {
	f.t.Helper()
	info, err := f.Get(f.ctx(), id)
	if err != nil {
		f.t.Fatalf("Get %s = %v", id, err)
	}
	return info
}

// state waits until a job is in a state.
func (f *fixture) state(id string, want job.State) *job.Info {
	f.t.Helper()
	var info *job.Info
	f.eventually("job "+id+" is "+want.String(), func() bool {
		info = f.get(id)
		return info.State == want
	})
	return info
}

// The states of the jobs in each part of the store.
var (
	laterOnes = []job.State{job.Scheduled, job.Retrying}
	inQueue   = []job.State{job.Queued, job.Running}
	ended     = []job.State{job.Done, job.Dead, job.Canceled}
	deadOnes  = []job.State{job.Dead}
)

// list returns all that a filter selects, page by page.
func (f *fixture) list(filter job.Filter) []job.Info {
	f.t.Helper()
	var all []job.Info
	for pages := 0; ; pages++ {
		p, err := f.List(f.ctx(), filter)
		if err != nil {
			f.t.Fatalf("List %+v = %v", filter, err)
		}
		if filter.Limit > 0 && len(p.Jobs) > filter.Limit {
			f.t.Fatalf("List gave %d jobs, more than the limit %d", len(p.Jobs), filter.Limit)
		}
		all = append(all, p.Jobs...)
		if p.Next == "" {
			return all
		}
		if p.Next == filter.After || pages > 10_000 {
			f.t.Fatalf("List goes from %q to %q: the pages do not come to an end", filter.After, p.Next)
		}
		filter.After = p.Next
	}
}

// within runs a call that must return, and ends the test when it does not. The
// goroutine of a call that hangs is lost with the test.
func (f *fixture) within(what string, call func() error) error {
	f.t.Helper()
	result := make(chan error, 1)
	go func() { result <- call() }() // ends with the call; within waits for it, but for Patience at most
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		f.t.Fatalf("%s did not return within %v", what, Patience)
		return nil
	}
}

// eventually waits until a condition holds and ends the test when it does not.
func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(Patience); !holds(); <-look.C {
		if time.Now().After(end) {
			f.t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// pass lets time pass: what is tested is that something does not happen in it.
func (f *fixture) pass(d time.Duration) {
	f.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.t.Context().Done():
	}
}

// await waits for a channel.
func await[V any](f *fixture, what string, c <-chan V) V {
	f.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		f.t.Fatalf("%s: not within %v", what, Patience)
	}
	var zero V
	return zero
}
