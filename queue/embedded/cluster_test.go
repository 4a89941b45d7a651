package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// Three programs, each with a server of one cluster, are started one after the
// other, as people and schedulers do: the first ones wait for the last instead of
// giving up.
func TestClusterOfPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	t.Parallel()
	// The links between the servers use pipes of the runtime, which closes them
	// when they are collected.
	t.Cleanup(func() { runtime.GC(); runtime.GC() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nodes := openCluster(ctx, t)
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
	go func() { worked <- nodes[2].Work(working, p, queue.WorkConfig{Queue: "q"}) }() // ends with working; waited for below
	ref, err := nodes[0].Enqueue(ctx, queue.Job{Queue: "q", Name: "greet", Payload: []byte("you")})
	if err != nil {
		t.Fatal(err)
	}
	result, err := nodes[1].Wait(ctx, ref.ID)
	if err != nil || string(result.Payload) != "hello you" {
		t.Errorf("the job gave %q and %v", result.Payload, err)
	}
	stop()
	if err := errors.Join(<-worked, p.Close()); err != nil {
		t.Error(err)
	}
}

// openCluster opens three nodes, one some seconds after the other.
func openCluster(ctx context.Context, t *testing.T) []*queue.Queue {
	t.Helper()
	addresses := freeAddresses(t, 6)
	nodes := make([]*queue.Queue, 3)
	errs := make([]error, 3)
	var opening sync.WaitGroup
	for i := range nodes {
		store := embedded.Store{Dir: t.TempDir(), Cluster: &embedded.Cluster{
			Name: "test", Node: fmt.Sprint("n", i), Listen: addresses[i], Client: addresses[3+i],
			Routes: addresses[:3], User: "bullpen", Password: "of the cluster",
		}}
		opening.Go(func() { // ends when the node is open; waited for below
			// Behind the time that a single server would get.
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(i) * 3 * time.Second):
			}
			nodes[i], errs[i] = queue.Open(ctx, queue.Config{Store: store, Node: fmt.Sprint("n", i)})
		})
	}
	opening.Wait()
	for i, q := range nodes {
		if q != nil {
			t.Cleanup(func() {
				if err := q.Close(); err != nil {
					t.Errorf("closing node %d: %v", i, err)
				}
			})
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// freeAddresses finds ports that nobody uses.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}
