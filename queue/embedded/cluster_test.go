package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/natstest"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// Three servers of a cluster are started one after the other, as people and
// schedulers do: a queue that finds only the first waits for a second instead of
// giving up.
func TestOpenWaitsForServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3})
	// Its streams are there: servers may make none with three copies while one is away.
	first, err := queue.Open(t.Context(), queue.Config{Store: queue.Server{URL: k.URL(), Replicas: 3}})
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	k.Kill(1)
	k.Kill(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var q *queue.Queue
	opened := make(chan error, 1)
	go func() { // ends when the queue is open, with ctx at the latest; waited for below
		var err error
		q, err = queue.Open(ctx, queue.Config{Store: queue.Server{URL: k.URL(), Replicas: 3}})
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("with one server of three Open = %v", err)
	case <-time.After(3 * time.Second):
	}
	k.Restart(1)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{
		"greet": func(_ context.Context, task bullpen.Task) ([]byte, error) {
			return append([]byte("hello "), task.Payload...), nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- q.Work(working, p, queue.WorkConfig{Queue: "q"}) }() // ends with working; waited for below
	_, result, err := q.Run(ctx, job.Job{Queue: "q", Name: "greet", Payload: []byte("you")})
	if err != nil || string(result.Payload) != "hello you" {
		t.Errorf("the job gave %q and %v", result.Payload, err)
	}
	stop()
	if err := errors.Join(<-worked, p.Close()); err != nil {
		t.Error(err)
	}
}
