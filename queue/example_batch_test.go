package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Jobs that follow one after the other: each gets the result of the one before.
func ExampleQueue_EnqueueChain() {
	q, done := example(map[string]bullpen.Handler{
		"fetch": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return append([]byte("page of "), t.Payload...), nil
		},
		"count": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return fmt.Append(nil, len(t.Payload), " bytes"), nil
		},
	})
	defer done()
	ctx := context.Background()
	ref, err := q.EnqueueChain(ctx, job.Job{Name: "fetch", Payload: []byte("example.org")}, job.Job{Name: "count"})
	if err != nil {
		panic(err)
	}
	r, err := q.WaitChain(ctx, ref.ID)
	fmt.Println(string(r.Payload), err)
	fmt.Println(q.CancelChain(ctx, ref.ID) != nil) // it has ended
	// Output:
	// 19 bytes <nil>
	// true
}

// Jobs that are counted together, and one that runs when all have ended.
func ExampleQueue_EnqueueBatch() {
	q, done := example(map[string]bullpen.Handler{
		"resize": func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil },
		"report": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			var counts struct{ Total, OK int }
			err := json.Unmarshal(t.Payload, &counts)
			return fmt.Appendf(nil, "%d of %d", counts.OK, counts.Total), err
		},
	})
	defer done()
	ctx := context.Background()
	batch := job.Batch{Key: "album 7", Then: &job.Job{Name: "report"}}
	b, err := q.EnqueueBatch(ctx, batch, []job.Job{{Name: "resize"}, {Name: "resize"}, {Name: "resize"}})
	if err != nil {
		panic(err)
	}
	b, err = q.WaitBatch(ctx, b.ID)
	if err != nil {
		panic(err)
	}
	r, err := q.Wait(ctx, b.ThenID)
	fmt.Println(b.State, string(r.Payload), err)
	jobs, _, err := q.BatchJobs(ctx, b.ID, 0, 10)
	fmt.Println(len(jobs), jobs[2].State, err)
	// Output:
	// done 3 of 3 <nil>
	// 3 done <nil>
}

// A batch whose jobs are not known at once: they are added in pieces.
func ExampleQueue_OpenBatch() {
	q, done := example(map[string]bullpen.Handler{
		"resize": func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil },
	})
	defer done()
	ctx := context.Background()
	b, err := q.OpenBatch(ctx, job.Batch{})
	if err != nil {
		panic(err)
	}
	for at := 0; at < 10; at += 2 { // adding a piece again does no harm
		if _, err := q.AddToBatch(ctx, b.ID, at, []job.Job{{Name: "resize"}, {Name: "resize"}}); err != nil {
			panic(err)
		}
	}
	if _, err := q.SealBatch(ctx, b.ID, 10); err != nil {
		panic(err)
	}
	_, err = q.WaitBatch(ctx, b.ID)
	now, _ := q.GetBatch(ctx, b.ID)
	page, _ := q.ListBatches(ctx, job.BatchFilter{States: []job.BatchState{job.BatchDone}})
	_, ended := q.CancelBatch(ctx, b.ID)
	fmt.Println(now.OK, len(page.Batches), err, errors.Is(ended, job.ErrEnded))
	// Output: 10 1 <nil> true
}
