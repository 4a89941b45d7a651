package client_test

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func ExampleClient_Pools() {
	c, end := example()
	defer end()
	pools, err := c.Pools(context.Background())
	for _, p := range pools {
		fmt.Println(p.Name, p.State, p.Workers.Busy, err)
	}
	// Output: thumbnails open 1 <nil>
}

func ExampleClient_Pool() {
	c, end := example()
	defer end()
	p, err := c.Pool(context.Background(), "thumbnails")
	fmt.Println(p.Min, p.Max, err)
	// Output: 1 8 <nil>
}

func ExampleClient_Scale() {
	c, end := example()
	defer end()
	most := 8
	p, err := c.Scale(context.Background(), "thumbnails", client.Scale{Max: &most})
	fmt.Println(p.Max, err)
	// Output: 8 <nil>
}

func ExampleClient_Pause() {
	c, end := example()
	defer end()
	p, err := c.Pause(context.Background(), "thumbnails")
	fmt.Println(p.Paused, err)
	// Output: true <nil>
}

func ExampleClient_Resume() {
	c, end := example()
	defer end()
	p, err := c.Resume(context.Background(), "thumbnails")
	fmt.Println(p.Paused, err)
	// Output: false <nil>
}

func ExampleClient_ReloadPool() {
	c, end := example()
	defer end()
	p, err := c.ReloadPool(context.Background(), "thumbnails")
	fmt.Println(p.State, err)
	// Output: open <nil>
}

func ExampleClient_Reload() {
	c, end := example()
	defer end()
	changed, err := c.Reload(context.Background())
	fmt.Println(changed, err)
	// Output: [thumbnails] <nil>
}

func ExampleClient_Backup() {
	c, end := example()
	defer end()
	err := c.Backup(context.Background(), "/var/backups/bullpen-2026-11-22")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Overview() {
	c, end := example()
	defer end()
	o, err := c.Overview(context.Background())
	for _, p := range o.Pools {
		fmt.Println(p.Name, p.Waiting, p.Rate, p.WaitP99, err)
	}
	// Output: thumbnails 7 12.5 250ms <nil>
}

func ExampleClient_Workers() {
	c, end := example()
	defer end()
	workers, err := c.Workers(context.Background(), "thumbnails")
	for _, w := range workers {
		fmt.Println(w.ID, w.State, w.Task, w.TaskAge, err)
	}
	// Output: thumbnails-1 busy 01J 1.5s <nil>
}

func ExampleClient_Recycle() {
	c, end := example()
	defer end()
	fmt.Println(c.Recycle(context.Background(), "thumbnails", "w1"))
	// Output: <nil>
}

func ExampleClient_Status() {
	c, end := example()
	defer end()
	s, err := c.Status(context.Background())
	fmt.Println(s.Version, s.Ready, s.Uptime, err)
	// Output: 1.0 true 1m30s <nil>
}

// A pool of a daemon replaces a pool in this process: the code that submits tasks
// stays the same.
func ExampleClient_Executor() {
	c, end := example()
	defer end()
	var pool bullpen.Executor
	pool, err := c.Executor("thumbnails", client.ExecutorConfig{Inflight: 16, Overflow: client.Reject})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := bullpen.Execute(context.Background(), pool, bullpen.Task{Name: "thumbnail", Payload: []byte("jpeg")})
	fmt.Printf("%s, %v\n", r.Payload, err)
	fmt.Println(pool.Drain(context.Background()))
	// Output:
	// small picture, <nil>
	// <nil>
}

// A handler that submits work to its own daemon and waits for it passes a context
// from WithParent.
func ExampleWithParent() {
	c, end := example()
	defer end()
	handler := func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		_, r, err := c.Run(client.WithParent(ctx, t), job.Job{Queue: "thumbnails", Payload: t.Payload})
		return r.Payload, err
	}
	result, err := handler(context.Background(), bullpen.Task{ID: "01P", Payload: []byte("jpeg")})
	fmt.Printf("%s, %v\n", result, err)
	// Output: small picture, <nil>
}
