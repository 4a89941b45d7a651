package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/job"
)

// burial is what the task that gets the dead jobs received.
type burial struct {
	mu       sync.Mutex
	received map[string]job.Delivered // by the id of the job that brought it; guarded by mu
	more     bool                     // one was different the second time; guarded by mu
}

// handle fails for good, except for the burials.
func (b *burial) handle(_ context.Context, t bullpen.Task) ([]byte, error) {
	if t.Name != "tell" {
		return nil, bullpen.Fail("no", false)
	}
	d := AttemptOf(t)
	d.Attempt, d.Redelivered, d.Since, d.Due = 1, false, time.Time{}, time.Time{}
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, there := b.received[t.ID]; there && before != d || string(t.Payload) != "p" || t.Meta["k"] != "v" {
		b.more = true
	}
	if b.received == nil {
		b.received = map[string]job.Delivered{}
	}
	b.received[t.ID] = d
	return nil, nil
}

// TestBurySurvivesACrash lets a node die at each step of the death of a job: after
// the n-th thing that it asks the store for, which is done or not. When another has
// taken over, the task got it from one job.
func TestBurySurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		for n := 1; ; n++ {
			died := false
			synctest.Test(t, func(t *testing.T) { died = crashAt(t, n, stored) })
			if !died {
				if n < 8 {
					t.Errorf("all was done after %d steps, want at least 8", n)
				}
				break
			}
		}
	}
}

func crashAt(t *testing.T, n int, stored bool) (died bool) {
	t.Helper()
	s := &memory.Store{Shared: true}
	var b burial
	q, err := Open(t.Context(), Config{Store: s, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ref := enqueued(t, q, job.Job{Name: "work", Payload: []byte("p"), Meta: map[string]string{"k": "v"}, Bury: "tell"})
	var count atomic.Int64
	s.Inject(func(memory.Operation) memory.Fault {
		switch step := count.Add(1); {
		case step < int64(n):
			return memory.Fault{}
		default:
			return memory.Fault{Err: errors.New("the node dies"), Stored: stored && step == int64(n)}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with ctx, and the queue; see below
		defer close(ended)
		q.Work(ctx, newTeam(1, b.handle), WorkConfig{}) //nolint:errcheck // it dies
	}()
	<-time.After(500 * time.Millisecond)
	died = count.Load() >= int64(n)
	cancel()
	_ = q.Close() // it dies
	<-ended
	s.Inject(nil)

	q = openOn(t, Config{Store: s, Lease: time.Second})
	stop := workOn(t, q, newTeam(1, b.handle), WorkConfig{})
	if _, err := q.Wait(t.Context(), ref.ID); err == nil {
		t.Errorf("step %d: the job has ended well", n)
	}
	<-time.After(time.Minute)
	if err := stop(); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, d := range b.received {
		if want := (job.Delivered{Attempt: 1, Parent: ref.ID, Task: "work", Reason: job.Final, Outcome: "failed", Error: "no"}); d != want {
			t.Errorf("step %d: %s was reported as %+v, want %+v", n, id, d, want)
		}
		if info, err := q.Get(t.Context(), id); err != nil || info.State != job.Done || info.Parent != ref.ID {
			t.Errorf("step %d: Get = %+v, %v, want that it is done", n, info, err)
		}
	}
	if len(b.received) != 1 || b.more {
		t.Errorf("step %d, stored %v: the task got it from %d jobs, want one", n, stored, len(b.received))
	}
	if _, err := q.GetDead(t.Context(), ref.ID); err != nil {
		t.Errorf("step %d: the job is not among the dead: %v", n, err)
	}
	return died
}

// TestBuryOfADamagedJob wants the task that Work names to get it, as what the job says is
// not known.
func TestBuryOfADamagedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, damaged := damagedStore(t)
		q := openOn(t, Config{Store: s})
		delivered := make(chan job.Delivered, 9)
		workOn(t, q, newTeam(8, func(_ context.Context, task bullpen.Task) ([]byte, error) {
			if task.Name == "tell" && len(task.Payload) == 0 {
				delivered <- AttemptOf(task)
			}
			return nil, nil
		}), WorkConfig{Bury: "tell"})
		d := <-delivered
		if d.Parent != damaged || d.Reason != job.Corrupt || d.Outcome != "lost" || d.Error == "" || d.Task != "" {
			t.Errorf("the task received %+v, want that %s is corrupt", d, damaged)
		}
		<-time.After(time.Minute)
		if len(delivered) != 0 {
			t.Error("it was enqueued again")
		}
	})
}
