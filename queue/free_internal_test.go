package queue

import (
	"context"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// TestFreePlaceIsUsed has one place of many become free while all others are taken for
// long: who waits gets it at once. It stayed free until a quarter of all places was.
func TestFreePlaceIsUsed(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "a"} {
		t.Run("group "+group, func(t *testing.T) {
			t.Parallel()
			q := openOn(t, Config{})
			release, first := make(chan struct{}), make(chan struct{})
			defer close(release)
			const places = 16
			workOn(t, q, newTeam(places, func(_ context.Context, t bullpen.Task) ([]byte, error) {
				switch t.Name {
				case "first":
					<-first
				case "long":
					<-release
				}
				return nil, nil
			}), WorkConfig{})
			enqueued(t, q, job.Job{Name: "first", Group: group})
			for range places - 1 {
				enqueued(t, q, job.Job{Name: "long", Group: group})
			}
			waiter := enqueued(t, q, job.Job{Name: "waiter", Group: group})
			close(first)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := q.Wait(ctx, waiter.ID); err != nil {
				t.Errorf("a place is free, and the job that waits does not get it: %v", err)
			}
		})
	}
}
