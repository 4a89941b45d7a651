package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// TestWaitAndRun wants the waits of jobs from when they could start, and the runs
// of their attempts.
func TestWaitAndRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{Retry: job.Retry{Attempts: 2, Backoff: 10 * time.Second}})
		once := enqueued(t, q, job.Job{Queue: "a", Name: "once", Delay: time.Hour})
		late := enqueued(t, q, job.Job{Queue: "a", Name: "twice"})
		<-time.After(time.Minute)
		workOn(t, q, newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
			<-time.After(3 * time.Second)
			if task.Name == "twice" && AttemptOf(task).Attempt == 1 {
				return nil, bullpen.Fail("again", true)
			}
			return nil, nil
		}), WorkConfig{Queue: "a"})
		for _, ref := range []job.Ref{once, late} {
			if _, err := q.Wait(t.Context(), ref.ID); err != nil {
				t.Fatal(err)
			}
		}
		s := q.QueueStats("a")
		if s.Enqueued != 2 || s.Taken != 3 || s.Retried != 1 || s.Ended[bullpen.OK] != 2 || s.Dead != 0 {
			t.Errorf("the counts are %+v, want 2 enqueued, 3 taken, 1 retried, 2 ended well", s)
		}
		if s.Wait.Count != 3 || s.Wait.Sum < time.Minute || s.Wait.Sum > time.Minute+time.Second {
			t.Errorf("%d waited %v, want a minute for one of three, from when it could start", s.Wait.Count, s.Wait.Sum)
		}
		if s.Run.Count != 3 || s.Run.Sum != 9*time.Second {
			t.Errorf("%d ran %v, want three of 3 seconds", s.Run.Count, s.Run.Sum)
		}
		if other := q.QueueStats("b"); other.Enqueued != 0 || other.Ended == nil || other.Wait.Count != 0 {
			t.Errorf("the counts of another queue are %+v, want none", other)
		}
		if names := q.QueueNames(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("the queues are %q, want a", names)
		}
	})
}

// TestMostCounted wants the memory of the counts bounded, and nothing uncounted.
func TestMostCounted(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	for i := range jobs.MostCounted + 5 {
		q.jobs.Counters.Of(fmt.Sprint("q", i)).Enqueued.Add(1)
	}
	if n := len(q.QueueNames()); n != jobs.MostCounted+1 {
		t.Errorf("%d queues are counted apart, want %d and one for the rest", n, jobs.MostCounted)
	}
	if rest := q.QueueStats(""); rest.Enqueued != 5 || q.Stats().Enqueued != jobs.MostCounted+5 {
		t.Errorf("the rest is %d of %d, want 5 of %d", rest.Enqueued, q.Stats().Enqueued, jobs.MostCounted+5)
	}
}
