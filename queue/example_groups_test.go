package queue_test

import (
	"context"
	"fmt"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// The jobs of a tenant run one at a time, and ten of them begin in a second; those
// of other tenants have their turns between them.
func ExampleQueue_SetGroupLimits() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	ctx := context.Background()
	if err := q.SetGroupLimits(ctx, "default", "tenant 7", job.GroupLimits{Concurrency: 1, Rate: 10}); err != nil {
		panic(err)
	}
	ref, err := q.Enqueue(ctx, job.Job{Name: "greet", Group: "tenant 7", Payload: []byte("hello")})
	if err != nil {
		panic(err)
	}
	res, err := q.Wait(ctx, ref.ID)
	fmt.Printf("%s %v\n", res.Payload, err)
	// Output: hello! <nil>
}

func ExampleQueue_ResetGroupLimits() {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	fmt.Println(q.SetGroupLimits(ctx, "default", "", job.GroupLimits{Concurrency: 2}))
	limits, err := q.GroupDefaults(ctx, "default")
	fmt.Println(limits, err)
	fmt.Println(q.ResetGroupLimits(ctx, "default", ""))
	limits, err = q.GroupDefaults(ctx, "default")
	fmt.Println(limits, err)
	// Output:
	// <nil>
	// 2 at a time <nil>
	// <nil>
	// no limit <nil>
}

func ExampleQueue_Groups() {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	for range 3 {
		if _, err := q.Enqueue(ctx, job.Job{Name: "greet", Group: "tenant 7"}); err != nil {
			panic(err)
		}
	}
	groups, err := q.Groups(ctx, "default")
	for _, g := range groups {
		fmt.Println(g.Group, g.Waiting, g.Running, g.Limits, err)
	}
	// Output: tenant 7 3 0 no limit <nil>
}

func ExampleQueue_GroupDefaults() {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	limits, err := q.GroupDefaults(ctx, "default")
	fmt.Println(limits, err)
	// Output: no limit <nil>
}
