package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TestDerivedRunsOnce enqueues a job again that has ended: it does not run again,
// and its outcome stays.
func TestDerivedRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		q := openOn(t, Config{})
		workOn(t, q, newTeam(1, func(context.Context, bullpen.Task) ([]byte, error) {
			runs++
			return []byte("done"), nil
		}), WorkConfig{})
		ctx := t.Context()
		id := record.DerivedID(time.Now(), "test")
		for i := range 3 {
			s, err := q.jobs.Prepare(&job.Job{Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			s.ID = id
			if ref, err := q.jobs.EnqueueDerived(ctx, s); err != nil || ref.ID != id {
				t.Fatalf("enqueued as %v: %v", ref, err)
			}
			if r, err := q.Wait(ctx, id); err != nil || string(r.Payload) != "done" {
				t.Fatalf("its end is %q, %v", r.Payload, err)
			}
			synctest.Wait() // until the second one has found the outcome
			if taken := q.Stats().Taken; taken != uint64(i+1) {
				t.Errorf("taken %d times, want %d", taken, i+1)
			}
		}
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
	})
}
