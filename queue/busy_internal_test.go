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
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TestConcurrency has jobs of all priorities: never more than Concurrency run, and
// no place is empty while jobs wait.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			q := openOn(t, Config{})
			const each = 60
			for range each {
				for p := range job.Priority(job.Priorities) {
					enqueued(t, q, job.Job{Name: "a", Priority: p})
				}
			}
			team := newTeam(16, func(context.Context, bullpen.Task) ([]byte, error) {
				<-time.After(time.Second)
				return nil, nil
			})
			start := time.Now()
			workOn(t, q, team, WorkConfig{Concurrency: most})
			<-time.After((each*job.Priorities + 10) * time.Second)
			q.inHand(t, 0)
			if n := q.Stats().Ended[bullpen.OK]; n != each*job.Priorities {
				t.Errorf("%d jobs ended well within %v, want %d", n, time.Since(start), each*job.Priorities)
			}
			if n := team.most.Load(); n != int64(most) {
				t.Errorf("%d jobs ran at the same time, want %d", n, most)
			}
		})
	}
}

// TestLookUpsKeepTheirPlaces has jobs that were there before the start, and a
// store that is slow to say what is known of them: no more are taken than the
// executor can start.
func TestLookUpsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		raw := rawEngine(t, s)
		for range 200 {
			j := &record.Job{ID: newID(), Job: job.Job{Name: "a", Queue: "default"}}
			putRaw(t, raw, j.Message())
		}
		q := openOn(t, Config{Store: s})
		synctest.Wait()
		s.Inject(func(o memory.Operation) memory.Fault {
			if o.Name == "get" {
				return memory.Fault{Delay: time.Second}
			}
			return memory.Fault{}
		})
		const places = 4
		workOn(t, q, newTeam(places, func(context.Context, bullpen.Task) ([]byte, error) {
			<-time.After(time.Second)
			return nil, nil
		}), WorkConfig{})
		worst := 0
		for range 50 {
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			worst = max(worst, q.Stats().InHand)
		}
		if worst > places+job.Priorities-1 {
			t.Errorf("%d jobs were in hand, and the executor can start %d", worst, places)
		}
		s.Inject(nil)
	})
}

// TestAnExecutorThatRefuses has jobs given back: no attempt is spent, and it is
// not asked again and again at once.
func TestAnExecutorThatRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		ended job.Reason
	}{
		"no worker starts": {bullpen.ErrStart, ""},
		"full":             {bullpen.ErrOverloaded, ""},
		"unknown task":     {bullpen.ErrUnknownTask, job.Refused},
		"limits":           {bullpen.ErrRefused, job.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{})
				var calls atomic.Int64
				var heals atomic.Bool
				team := newTeam(1, echoes)
				start := team.submit
				team.submit = func(ctx context.Context, task bullpen.Task, done func(bullpen.Result, error)) error {
					if calls.Add(1); heals.Load() {
						return start(ctx, task, done)
					}
					return c.err
				}
				workOn(t, q, team, WorkConfig{})
				ref := enqueued(t, q, job.Job{Name: "a", Retry: job.Retry{Crashes: 1, Nodes: 1}})
				<-time.After(10 * time.Minute)
				synctest.Wait()
				if n := calls.Load(); n < 5 || n > 60 {
					t.Errorf("the executor was asked %d times in 10 min", n)
				}
				heals.Store(true)
				_, err := q.Wait(t.Context(), ref.ID)
				var end *job.EndError
				if c.ended != "" && (!errors.As(err, &end) || end.Reason != c.ended || end.Attempts != 0) || c.ended == "" && err != nil {
					t.Errorf("it ends with %v", err)
				}
				if info, err := q.Get(t.Context(), ref.ID); err != nil || c.ended == "" && (info.Attempts != 1 || len(info.History) != 0) {
					t.Errorf("%+v, %v, want one attempt", info, err)
				}
			})
		})
	}
}

// TestGetWhileItEnds reads a job while its attempts begin and end, for the race
// detector; and cancels jobs with a deadline while they begin.
func TestGetWhileItEnds(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	workOn(t, q, newTeam(4, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		if AttemptOf(task).Attempt < 4 {
			return nil, bullpen.Fail("no", true)
		}
		return nil, nil
	}), WorkConfig{})
	jobs := 100
	if testing.Short() {
		jobs = 20
	}
	var wg sync.WaitGroup
	for n := range jobs {
		ref := enqueued(t, q, job.Job{Name: "a", Retry: job.Retry{Backoff: 1, MaxBackoff: 1}, Deadline: time.Now().Add(time.Hour)})
		wg.Go(func() {
			for n%2 == 0 {
				info, err := q.Get(t.Context(), ref.ID)
				if err != nil || info.State.Ended() {
					return // seen below
				}
			}
			if err := q.Cancel(t.Context(), ref.ID); err != nil && !errors.Is(err, job.ErrEnded) {
				t.Errorf("Cancel: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := q.Wait(t.Context(), ref.ID); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestCloseInFlight closes a queue while everything is under way: puts whose
// answers are late, handlers, retries, waits, look-ups. All calls end, and all
// jobs have one outcome in the end.
func TestCloseInFlight(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := &memory.Store{Shared: true}
			config := Config{Store: s, Lease: time.Second, Retry: job.Retry{Backoff: 50 * time.Millisecond, Nodes: 100}}
			q := openOn(t, config)
			feed := q.Events(1)
			s.Inject(func(o memory.Operation) memory.Fault {
				switch {
				case o.Name == "put" && o.Stream != engine.Jobs, o.Name == "get":
					return memory.Fault{Delay: 20 * time.Millisecond}
				default:
					return memory.Fault{}
				}
			})
			var wg sync.WaitGroup
			for range 50 {
				ref := enqueued(t, q, job.Job{Name: "a"})
				wg.Go(func() {
					if _, err := q.Wait(context.Background(), ref.ID); err != nil && !errors.Is(err, job.ErrClosed) {
						t.Errorf("Wait: %v", err)
					}
				})
				wg.Go(func() {
					if _, _, err := q.Run(context.Background(), job.Job{Name: "a", Key: ref.ID}); err != nil && !errors.Is(err, job.ErrClosed) {
						t.Errorf("Run: %v", err)
					}
				})
			}
			for range 3 {
				wg.Go(func() {
					if err := q.Work(context.Background(), newTeam(4, slowOrFails), WorkConfig{Grace: time.Hour}); !errors.Is(err, job.ErrClosed) {
						t.Errorf("Work: %v", err)
					}
				})
			}
			<-time.After(wait)
			start := time.Now()
			for range 2 {
				wg.Go(func() {
					if err := q.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("the closing took %v", took)
			}
			kinds(feed) // until it is closed
			s.Inject(nil)
			again := openOn(t, config)
			workOn(t, again, newTeam(8, slowOrFails), WorkConfig{})
			<-time.After(5 * time.Minute)
			again.inHand(t, 0)
			again.allEnded(t)
		})
	}
}

func slowOrFails(ctx context.Context, task bullpen.Task) ([]byte, error) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if AttemptOf(task).Attempt == 1 && task.ID[len(task.ID)-1] < 'G' {
		return nil, bullpen.Fail("not yet", true)
	}
	return nil, nil
}

func (q *Queue) allEnded(t *testing.T) {
	t.Helper()
	status, err := q.Status(t.Context())
	if err != nil || status.Jobs.Messages != 0 {
		t.Errorf("%d jobs are left, %v", status.Jobs.Messages, err)
	}
	page, err := q.List(t.Context(), job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 1000})
	if err != nil || len(page.Jobs) < 50 || int64(len(page.Jobs)) != status.Outcomes.Messages {
		t.Errorf("%d jobs have ended and %d outcomes are there, %v", len(page.Jobs), status.Outcomes.Messages, err)
	}
	for _, j := range page.Jobs {
		if j.State != job.Done {
			t.Errorf("%s ended as %v: %v", j.ID, j.State, j.Err)
		}
	}
	if status.Dead.Messages != 0 {
		t.Errorf("%d jobs are dead", status.Dead.Messages)
	}
}
