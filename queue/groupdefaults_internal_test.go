package queue

import (
	"context"
	"testing"

	"github.com/bullpen-run/bullpen/job"
)

// TestDefaultsOfACallThatHasEnded has a call of Work whose context had ended before it
// began: what it says of groups no longer holds where another call says otherwise.
func TestDefaultsOfACallThatHasEnded(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	work := func(ctx context.Context, most int) {
		t.Helper()
		if err := q.Work(ctx, newTeam(1, echoes), WorkConfig{Group: job.GroupLimits{Concurrency: most}}); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with ctx, which the test ends
		defer close(ended)
		work(ctx, 3)
	}()
	if _, err := q.Wait(t.Context(), enqueued(t, q, job.Job{}).ID); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	work(over, 7)
	if limits, err := q.GroupDefaults(t.Context(), "default"); err != nil || limits.Concurrency != 3 {
		t.Errorf("groups have the limits %+v (%v), want those of the call that works", limits, err)
	}
	cancel()
	<-ended
}
