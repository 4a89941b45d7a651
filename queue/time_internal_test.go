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
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// begun notes when a handler is called, and as what.
type begun struct {
	mu    sync.Mutex
	at    []time.Time     // guarded by mu
	calls []job.Delivered // guarded by mu
}

func (b *begun) note(task bullpen.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.calls = append(b.at, time.Now()), append(b.calls, AttemptOf(task))
}

func (b *begun) all() ([]time.Time, []job.Delivered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at, b.calls
}

// TestBackOff has an attempt fail again and again: the next comes at least half
// the time later and at most all of it, by the consumer or, when that is long, as
// a job with a time.
func TestBackOff(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"within the lease": time.Minute, "beyond the lease": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{Lease: lease})
				var b begun
				workOn(t, q, newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
					b.note(task)
					return nil, bullpen.Fail("no", true)
				}), WorkConfig{})
				policy := job.Retry{Attempts: 6, Backoff: time.Second, MaxBackoff: 5 * time.Second}
				start := time.Now()
				ref := enqueued(t, q, job.Job{Name: "a", Retry: policy})
				<-time.After(time.Millisecond)
				info, err := q.Get(t.Context(), ref.ID)
				if err != nil || info.State != job.Retrying || info.At.Before(start.Add(500*time.Millisecond)) || info.At.After(start.Add(time.Second)) || info.Attempts != 1 {
					t.Errorf("after the first attempt: %+v, %v", info, err)
				}
				_, err = q.Wait(t.Context(), ref.ID)
				var end *job.EndError
				if !errors.As(err, &end) || end.Reason != job.Exhausted || end.Attempts != 6 {
					t.Errorf("it ends with %v, want all 6 attempts used", err)
				}
				at, calls := b.all()
				if len(at) != 6 {
					t.Fatalf("it began %d times, want 6", len(at))
				}
				for n, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
					if gap := at[n+1].Sub(at[n]); gap < most/2-time.Millisecond || gap > most+time.Millisecond {
						t.Errorf("attempt %d came after %v, want %v to %v", n+2, gap, most/2, most)
					}
				}
				for n, call := range calls {
					if call.Attempt != n+1 || call.Redelivered {
						t.Errorf("attempt %d received %+v", n+1, call)
					}
				}
				if dead, err := q.GetDead(t.Context(), ref.ID); err != nil || len(dead.History) != 6 || dead.Attempts != 6 {
					t.Errorf("among the dead: %+v, %v", dead, err)
				}
			})
		})
	}
}

// TestLeasesAreRenewed has a job that runs for ten leases: no other node gets it.
func TestLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{smallestLease, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := Memory()
			var b begun
			handler := func(_ context.Context, task bullpen.Task) ([]byte, error) {
				b.note(task)
				<-time.After(10 * lease)
				return nil, nil
			}
			nodes := []*Queue{openOn(t, Config{Store: s, Lease: lease}), openOn(t, Config{Store: s, Lease: lease})}
			for _, q := range nodes {
				workOn(t, q, newTeam(2, handler), WorkConfig{})
			}
			start := time.Now()
			_, _, err := nodes[0].Run(t.Context(), job.Job{Name: "a"})
			if at, _ := b.all(); err != nil || len(at) != 1 || time.Since(start) < 10*lease {
				t.Errorf("lease %v: it began %d times, %v", lease, len(at), err)
			}
			for _, q := range nodes {
				q.inHand(t, 0)
				if n := q.Stats().Redelivered; n != 0 {
					t.Errorf("lease %v: it was redelivered %d times", lease, n)
				}
			}
		})
	}
}

// hanging is an executor that never answers; it gives the tasks it got.
func hanging() (submit, *atomic.Int64) {
	got := new(atomic.Int64)
	return func(context.Context, bullpen.Task, func(bullpen.Result, error)) error {
		got.Add(1)
		return nil
	}, got
}

// TestANodeThatEnds has a node end with a job in hand, whose executor never
// answers: another gets it after its lease and knows that it may have run.
func TestANodeThatEnds(t *testing.T) {
	t.Parallel()
	for _, deaths := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			s, lease := Memory(), 10*time.Second
			last := openOn(t, Config{Store: s, Lease: lease})
			ref := enqueued(t, last, job.Job{Name: "a", Payload: []byte("x")})
			start := time.Now()
			for n := range deaths {
				q := openOn(t, Config{Store: s, Lease: lease})
				executor, got := hanging()
				stop := workOn(t, q, executor, WorkConfig{})
				if n > 0 {
					<-time.After(lease + time.Second) // until it comes again
				}
				synctest.Wait()
				if got.Load() != 1 {
					t.Fatalf("node %d has got %d jobs, want 1", n, got.Load())
				}
				start = time.Now()
				if err := q.Close(); err != nil {
					t.Error(err)
				}
				if err := stop(); !errors.Is(err, job.ErrClosed) {
					t.Errorf("Work: %v", err)
				}
			}
			var b begun
			workOn(t, last, newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
				b.note(task)
				return task.Payload, nil
			}), WorkConfig{})
			r, err := last.Wait(t.Context(), ref.ID)
			at, calls := b.all()
			if err != nil || string(r.Payload) != "x" || len(at) != 1 {
				t.Fatalf("%q, %v after %d calls", r.Payload, err, len(at))
			}
			if took := at[0].Sub(start); took > lease {
				t.Errorf("it came %v after the death, want %v at most", took, lease)
			}
			if since := calls[0].Since; since.Before(start) || since.After(at[0]) {
				t.Errorf("it waits since %v, want the death before %v", since, at[0])
			}
			if calls[0].Since = (time.Time{}); calls[0] != (job.Delivered{Attempt: deaths + 1, Redelivered: true}) {
				t.Errorf("after %d deaths it received %+v", deaths, calls[0])
			}
			info, err := last.Get(t.Context(), ref.ID)
			if err != nil || info.Attempts != deaths+1 || len(info.History) != deaths+1 || info.History[0].Outcome != bullpen.Lost {
				t.Errorf("%+v, %v", info, err)
			}
			if n := last.Stats().Redelivered; n != 1 {
				t.Errorf("%d redeliveries are counted, want 1", n)
			}
		})
	}
}

// TestTooManyNodesDied has a job that kills all nodes: it is quarantined when its
// policy says so.
func TestTooManyNodesDied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, lease := Memory(), time.Second
		last := openOn(t, Config{Store: s, Lease: lease})
		ref := enqueued(t, last, job.Job{Name: "a", Retry: job.Retry{Nodes: 3}, Idempotent: true})
		for n := range 4 {
			q := openOn(t, Config{Store: s, Lease: lease})
			executor, got := hanging()
			workOn(t, q, executor, WorkConfig{})
			<-time.After(2 * lease)
			if want := int64(1); n < 3 && got.Load() != want || n == 3 && got.Load() != 0 {
				t.Errorf("node %d has got %d jobs", n, got.Load())
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
		info, err := last.Get(t.Context(), ref.ID)
		if err != nil || info.State != job.Dead || info.Reason != job.Quarantined || info.Outcome != bullpen.Lost || info.Attempts != 3 {
			t.Errorf("%+v, %v, want it quarantined after 3 deaths", info, err)
		}
	})
}

// TestWhatWorkLeavesBehind has an executor that does not end a job which it was
// asked to end: Work returns, and the job comes again after its lease.
func TestWhatWorkLeavesBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{Store: &memory.Store{Shared: true}, Lease: 10 * time.Second})
		executor, got := hanging()
		stop := workOn(t, q, executor, WorkConfig{Grace: -1})
		ref := enqueued(t, q, job.Job{Name: "a"})
		synctest.Wait()
		if got.Load() != 1 {
			t.Fatal("it has not begun")
		}
		start := time.Now()
		if err := stop(); err != nil || time.Since(start) != run.AbortPatience {
			t.Errorf("Work ended after %v with %v, want %v", time.Since(start), err, run.AbortPatience)
		}
		workOn(t, q, newTeam(1, echoes), WorkConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := q.Wait(ctx, ref.ID); err != nil {
			t.Errorf("after 6 leases: %v", err)
		}
	})
}

// TestDeadlines has jobs that end by their deadline, wherever they are.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job     job.Job
		started bool
	}{
		"while it runs":                   {job.Job{Name: "long"}, true},
		"while it waits for another":      {job.Job{Name: "bad", Retry: job.Retry{Backoff: 10 * time.Minute, MaxBackoff: 10 * time.Minute}}, true},
		"while it waits for another soon": {job.Job{Name: "bad", Retry: job.Retry{Backoff: 20 * time.Second}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{})
				workOn(t, q, newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
					if task.Name == "bad" {
						return nil, bullpen.Fail("no", true)
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}), WorkConfig{})
				start := time.Now()
				c.job.Deadline = start.Add(5 * time.Second)
				_, _, err := q.Run(t.Context(), c.job)
				var end *job.EndError
				if !errors.As(err, &end) || end.Reason != job.Expired || !errors.Is(err, context.DeadlineExceeded) || (end.Attempts > 0) != c.started {
					t.Errorf("it ends with %v, want that its deadline passed", err)
				}
				if took := time.Since(start); took > 6*time.Second && c.job.Delay == 0 {
					t.Errorf("it ends after %v, its deadline was after 5 s", took)
				}
			})
		})
	}
}
