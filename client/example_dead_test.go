package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

func ExampleClient_DeadCauses() {
	c, end := example()
	defer end()
	all, err := c.DeadCauses(context.Background(), job.Filter{Queue: "thumbnails", Since: time.Now().Add(-time.Hour)})
	if err != nil {
		fmt.Println(err)
	}
	for _, cause := range all.Causes {
		fmt.Println(cause.Count, cause.Name, cause.Error) // and job.Filter{Cause: cause.Fingerprint} selects them
	}
	// Output: 17 thumbnail no file "…"
}

func ExampleClient_CancelAll() {
	c, end := example()
	defer end()
	swept, err := c.CancelAll(context.Background(), job.Filter{Queue: "thumbnails", States: []job.State{job.Queued}})
	fmt.Println(swept.Count, swept.More, err)
	// Output: 2 false <nil>
}

func ExampleClient_CancelIDs() {
	c, end := example()
	defer end()
	swept, err := c.CancelIDs(context.Background(), "01J", "01K")
	fmt.Println(swept.Count, err)
	// Output: 2 <nil>
}

func ExampleClient_RetryIDs() {
	c, end := example()
	defer end()
	swept, err := c.RetryIDs(context.Background(), "01J", "01K")
	fmt.Println(swept.Count, err)
	// Output: 2 <nil>
}
