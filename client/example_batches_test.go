package client_test

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen/job"
)

// Jobs that follow one after the other, in one pool or in several.
func ExampleClient_EnqueueChain() {
	c, end := example()
	defer end()
	ref, err := c.EnqueueChain(context.Background(),
		job.Job{Queue: "thumbnails", Name: "resize", Payload: []byte("jpeg")}, job.Job{Queue: "mail", Name: "send"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.WaitChain(context.Background(), ref.ID)
	fmt.Printf("%s, %v\n", r.Payload, err)
	// Output: small picture, <nil>
}

// Jobs that are counted together, and one that runs when all have ended.
func ExampleClient_EnqueueBatch() {
	c, end := example()
	defer end()
	ctx := context.Background()
	album := job.Batch{Key: "album 7", Then: &job.Job{Queue: "mail", Name: "send"}}
	b, err := c.EnqueueBatch(ctx, album, []job.Job{
		{Queue: "thumbnails", Payload: []byte("one")},
		{Queue: "thumbnails", Payload: []byte("two")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err = c.WaitBatch(ctx, b.ID)
	fmt.Println(b.State, b.OK, b.ThenID, err)
	// Output: done 2 01T <nil>
}

// A batch whose jobs are added in pieces.
func ExampleClient_OpenBatch() {
	c, end := example()
	defer end()
	ctx := context.Background()
	b, err := c.OpenBatch(ctx, job.Batch{})
	if err != nil {
		fmt.Println(err)
		return
	}
	refs, err := c.AddToBatch(ctx, b.ID, 0, []job.Job{
		{Queue: "thumbnails", Payload: []byte("one")},
		{Queue: "thumbnails", Payload: []byte("two")},
	})
	fmt.Println(len(refs), err)
	b, err = c.SealBatch(ctx, b.ID, 2)
	fmt.Println(b.State, err)
	// Output:
	// 2 <nil>
	// running <nil>
}

// How to inspect batches.
func ExampleClient_ListBatches() {
	c, end := example()
	defer end()
	ctx := context.Background()
	page, err := c.ListBatches(ctx, job.BatchFilter{States: []job.BatchState{job.BatchDone}})
	fmt.Println(len(page.Batches), err)
	b, err := c.GetBatch(ctx, "01B")
	fmt.Println(b.Ended, err)
	for info, err := range c.BatchJobs(ctx, b.ID) {
		fmt.Println(info.ID, info.State, err)
	}
	b, err = c.CancelBatch(ctx, b.ID)
	fmt.Println(b.State, err)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 01J done <nil>
	// canceled <nil>
}
