package client_test

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen/job"
)

func ExampleClient_Groups() {
	c, end := example()
	defer end()
	all, err := c.Groups(context.Background(), "thumbnails")
	for _, g := range all.Groups {
		fmt.Println(g.Group, g.Waiting, g.Running, g.Limits.Concurrency, g.Own, err)
	}
	// Output: cats 3 1 1 true <nil>
}

// One job of the group at a time, one each two seconds.
func ExampleClient_SetGroup() {
	c, end := example()
	defer end()
	all, err := c.SetGroup(context.Background(), "thumbnails", "cats", job.GroupLimits{Concurrency: 1, Rate: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(all.Groups[0].Limits.Rate)
	// Output: 0.5
}

func ExampleClient_ResetGroup() {
	c, end := example()
	defer end()
	all, err := c.ResetGroup(context.Background(), "thumbnails", "cats")
	fmt.Println(all.Limits.Concurrency, err)
	// Output: 2 <nil>
}
