package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// TestNextComesWithTheOutcome wants the next job of a chain to be there as soon as the
// outcome of the one before is: a crash finds both, or none.
func TestNextComesWithTheOutcome(t *testing.T) {
	t.Parallel()
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	p, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{
		"fine": func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- q.Work(ctx, p, queue.WorkConfig{}) }() // ends with ctx
	for range 100 {
		first, err := q.EnqueueChain(t.Context(), job.Job{Name: "fine"}, job.Job{Name: "fine", Queue: "nobody"})
		if err != nil {
			t.Fatal(err)
		}
		info := awaitEnd(t, q, first.ID)
		if next, err := q.Get(t.Context(), info.Next); err != nil || next.State != job.Queued {
			t.Fatalf("the outcome of %s is there, and the next of its chain is %+v, %v", first.ID, next, err)
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}

// awaitEnd asks for a job until it has ended.
func awaitEnd(t *testing.T, q *queue.Queue, id string) *job.Info {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		info, err := q.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Ended() {
			return info
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute job %s is %v", id, info.State)
		}
	}
}
