package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// TestHistogram wants each duration in the first bucket that does not end below it,
// and quantiles that are right within a quarter.
func TestHistogram(t *testing.T) {
	t.Parallel()
	var all jobs.Histogram
	var durations []time.Duration
	for i := range 2000 {
		d := time.Duration(math.Exp2(rand.Float64() * 48))
		if i < 40 {
			d = time.Duration(i)
		}
		durations = append(durations, d)
		all.Add(d)
		var h Histogram
		if n := bucketOf(d); h.Bound(n) < d || n > 0 && h.Bound(n-1) >= d {
			t.Fatalf("%v is in bucket %d, which ends with %v and begins above %v", d, n, h.Bound(n), h.Bound(n-1))
		}
	}
	all.Add(-time.Second)
	durations = append(durations, 0)
	slices.Sort(durations)
	h := Histogram(all.Snapshot())
	for _, q := range []float64{-1, 0, 0.001, 0.5, 0.9, 0.99, 1, 2} {
		rank := max(int(math.Ceil(min(q, 1)*float64(len(durations))))-1, 0)
		want := durations[rank]
		if got := h.Quantile(q); got < want || got > want+want/4 {
			t.Errorf("quantile %v is %v, want %v or up to a quarter more", q, got, want)
		}
	}
	all.Add(time.Minute)
	later := Histogram(all.Snapshot())
	if d := later.Minus(&h); d.Count != 1 || d.Sum != time.Minute || d.Quantile(1) < time.Minute || d.Quantile(1) > 75*time.Second || d.Mean() != time.Minute {
		t.Errorf("between the two came %d of %v, quantile %v, want one of a minute", d.Count, d.Sum, d.Quantile(1))
	}
	if d := later.Minus(&h); h.Plus(&d) != later {
		t.Error("what came first and what came then is not all of it")
	}
	var none Histogram
	if none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("nothing took time")
	}
	all.Add(math.MaxInt64)
	if longest := Histogram(all.Snapshot()); longest.Quantile(1) != longest.Bound(len(longest.Buckets)-1) {
		t.Errorf("the longest is %v, want the last bound", longest.Quantile(1))
	}
}

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

// TestMostTallies wants the memory of the counts bounded, and nothing uncounted.
func TestMostTallies(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	for i := range jobs.MostTallies + 5 {
		q.jobs.Tallies.Of(fmt.Sprint("q", i)).Enqueued.Add(1)
	}
	if n := len(q.QueueNames()); n != jobs.MostTallies+1 {
		t.Errorf("%d queues are counted apart, want %d and one for the rest", n, jobs.MostTallies)
	}
	if rest := q.QueueStats(""); rest.Enqueued != 5 || q.Stats().Enqueued != jobs.MostTallies+5 {
		t.Errorf("the rest is %d of %d, want 5 of %d", rest.Enqueued, q.Stats().Enqueued, jobs.MostTallies+5)
	}
}

// bucketOf returns the bucket that counts a duration.
func bucketOf(d time.Duration) int {
	var one jobs.Histogram
	one.Add(d)
	counts := one.Snapshot().Buckets
	return slices.Index(counts[:], 1)
}
