package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// shrinking is an executor whose places change while it is used.
type shrinking struct {
	submit
	places  atomic.Int64
	running atomic.Int64
}

func (s *shrinking) Capacity() int { return max(0, int(s.places.Load()-s.running.Load())) }

func (s *shrinking) Submit(_ context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	s.running.Add(1)
	go func() { // ends with the task
		s.running.Add(-1)
		done(bullpen.Result{Payload: t.Payload}, nil)
	}()
	return nil
}

// TestFewerPlaces has an executor that becomes smaller while all its places are kept
// for one priority: jobs of another are seen all the same.
func TestFewerPlaces(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	e := &shrinking{}
	e.places.Store(2)
	workOn(t, q, e, WorkConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, step := range []struct {
		places int64
		p      job.Priority
	}{{2, job.High}, {2, job.High}, {1, job.Normal}, {1, job.Normal}, {1, job.Normal}, {1, job.Low}, {1, job.Low}, {2, job.High}, {1, job.Low}, {1, job.Low}, {1, job.Normal}} {
		e.places.Store(step.places)
		if _, _, err := q.Run(ctx, job.Job{Priority: step.p}); err != nil {
			t.Fatalf("a job of priority %v, with %d places: %v", step.p, step.places, err)
		}
	}
}
