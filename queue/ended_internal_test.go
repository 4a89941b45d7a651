package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// ends collects what Config.Ended gets.
type ends struct {
	mu  sync.Mutex
	all map[string][]job.Info // by the job; guarded by mu
}

func (e *ends) take(i *job.Info) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string][]job.Info{}
	}
	e.all[i.ID] = append(e.all[i.ID], *i)
}

func (e *ends) of(id string) []job.Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[id]
}

// TestEnded wants each end to be reported once, before a waiter gets it.
func TestEnded(t *testing.T) {
	t.Parallel()
	var reported ends
	q := openOn(t, Config{Ended: reported.take, Retry: job.Retry{Backoff: time.Millisecond}})
	tries := map[string]int{}
	var mu sync.Mutex
	workOn(t, q, newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if tries[task.ID]++; task.Name == "never" || task.Name == "late" && tries[task.ID] < 3 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	}), WorkConfig{})
	meta := map[string]string{"traceparent": "00-ab"}
	for _, c := range []struct {
		job      job.Job
		state    job.State
		attempts int
	}{
		{job.Job{Name: "good", Meta: meta}, job.Done, 1},
		{job.Job{Name: "late", Meta: meta}, job.Done, 3},
		{job.Job{Name: "never", Meta: meta, Retry: job.Retry{Attempts: 2}}, job.Dead, 2},
		{job.Job{Name: "good", Meta: meta, Delay: time.Hour}, job.Canceled, 0},
	} {
		ref := enqueued(t, q, c.job)
		if c.state == job.Canceled {
			if err := q.Cancel(t.Context(), ref.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = q.Wait(t.Context(), ref.ID) // how it ended is reported
		all := reported.of(ref.ID)
		if len(all) != 1 {
			t.Errorf("%s that is %v was reported %d times", c.job.Name, c.state, len(all))
			continue
		}
		i := all[0]
		if i.State != c.state || i.Attempts != c.attempts || i.Meta["traceparent"] != "00-ab" || i.Queue != "default" || i.Ended.Before(i.Enqueued) {
			t.Errorf("%s was reported as %+v, want it %v after %d attempts", c.job.Name, i, c.state, c.attempts)
		}
	}
}

// TestSince wants an executor to know since when a job waits and for what.
func TestSince(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{Retry: job.Retry{Backoff: 20 * time.Millisecond}})
	given := make(chan job.Delivered, 4)
	inner := newTeam(1, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		if AttemptOf(task).Attempt == 1 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	})
	outer := &team{size: 1}
	outer.submit = func(ctx context.Context, task bullpen.Task, done func(bullpen.Result, error)) error {
		given <- AttemptOf(task)
		return inner.Submit(ctx, task, done)
	}
	workOn(t, q, outer, WorkConfig{})
	before := time.Now()
	ref := enqueued(t, q, job.Job{Name: "x", Delay: 10 * time.Millisecond})
	if _, err := q.Wait(t.Context(), ref.ID); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	first, second := <-given, <-given
	if first.Since.Before(before.Truncate(time.Millisecond)) || first.Due.Sub(first.Since) < 9*time.Millisecond {
		t.Errorf("the first attempt waits since %v for %v, and was enqueued after %v", first.Since, first.Due, before)
	}
	if second.Since.Before(first.Due) || second.Due.Sub(second.Since) < 9*time.Millisecond || second.Due.After(after) {
		t.Errorf("the second attempt waits since %v for %v, after the first that was due %v", second.Since, second.Due, first.Due)
	}
	if d := AttemptOf(bullpen.Task{}); !d.Since.IsZero() || !d.Due.IsZero() {
		t.Errorf("a task of no queue waits since %v for %v", d.Since, d.Due)
	}
}
