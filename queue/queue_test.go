package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// open opens a queue on a store of its own in memory and closes it at the end.
func open(t testing.TB, c queue.Config) *queue.Queue {
	t.Helper()
	if c.Store == nil {
		c.Store = queue.Memory()
	}
	q, err := queue.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// work runs the jobs of the queue "default" on e until the test ends or stop is
// called.
func work(t testing.TB, q *queue.Queue, e bullpen.Executor) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Work(ctx, e, queue.WorkConfig{Grace: 5 * time.Second}) }() // ends with ctx; stop waits
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func echo(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil }

func TestRun(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{})
	work(t, q, newExecutor(4, echo))
	for i := range 100 {
		want := fmt.Sprint("payload ", i)
		_, r, err := q.Run(t.Context(), job.Job{Name: "echo", Payload: []byte(want)})
		if err != nil || string(r.Payload) != want {
			t.Fatalf("Run gave %q, %v; want %q", r.Payload, err, want)
		}
	}
}
