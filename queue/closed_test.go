package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// TestExecutorClosedWhileIdle closes an executor that says from then on that it
// has no place: Work hears of it with the next job, which stays in the queue.
func TestExecutorClosedWhileIdle(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{})
	handlers := map[string]bullpen.Handler{"echo": echo}
	first, err := pool.New(pool.Config{Max: 1, Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- q.Work(t.Context(), first, queue.WorkConfig{}) }() // ends with the executor
	if _, _, err := q.Run(t.Context(), job.Job{Name: "echo"}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	ref, err := q.Enqueue(t.Context(), job.Job{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, bullpen.ErrClosed) {
			t.Errorf("Work ended with %v, want that the executor is closed", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Work goes on with an executor that was closed")
	}
	second, err := pool.New(pool.Config{Max: 1, Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	work(t, q, second)
	if _, err := q.Wait(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
}

// closing is an executor that is closed, by whoever ends the work too.
type closing struct {
	bullpen.Executor

	end func()
}

func (c closing) Submit(context.Context, bullpen.Task, func(bullpen.Result, error)) error {
	c.end()
	return bullpen.ErrClosed
}

// TestExecutorClosedWithWork ends Work and its executor at the same time: Work has no
// complaint.
func TestExecutorClosedWithWork(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{})
	p, err := pool.New(pool.Config{Max: 1, Handlers: map[string]bullpen.Handler{"echo": echo}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := q.Enqueue(t.Context(), job.Job{Name: "echo"}); err != nil {
		t.Fatal(err)
	}
	for range 20 { // whether the end of the context or the complaint is seen first is up to chance
		ctx, cancel := context.WithCancel(t.Context())
		if err := q.Work(ctx, closing{p, cancel}, queue.WorkConfig{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExecutorBusyWithOthers has an executor whose only place others keep: the
// job waits in its queue and runs when the place is free.
func TestExecutorBusyWithOthers(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{})
	gate := make(chan struct{})
	p, err := pool.New(pool.Config{Max: 1, Handlers: map[string]bullpen.Handler{
		"echo": echo,
		"wait": func(context.Context, bullpen.Task) ([]byte, error) { <-gate; return nil, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	other, err := bullpen.Start(t.Context(), p, bullpen.Task{Name: "wait"})
	if err != nil {
		t.Fatal(err)
	}
	work(t, q, p)
	ref, err := q.Enqueue(t.Context(), job.Job{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	for p.Stats().Queued == 0 { // until it waits in the executor
		<-time.After(time.Millisecond)
	}
	close(gate)
	if _, err := other.Result(); err != nil {
		t.Error(err)
	}
	if _, err := q.Wait(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
}
