package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// example opens a queue in memory, and runs its jobs in goroutines where there are
// handlers; a pool without the handler of a job would refuse it. A real program keeps
// jobs with embedded.At("folder") or queue.Server{URL: "nats://…"}.
func example(handlers map[string]bullpen.Handler) (q *queue.Queue, end func()) {
	q, err := queue.Open(context.Background(), queue.Config{
		Store: queue.Memory(), Retry: job.Retry{Attempts: 3, Backoff: time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	if handlers == nil {
		return q, func() {
			if err := q.Close(); err != nil {
				panic(err)
			}
		}
	}
	p, err := pool.New(pool.Config{Max: 4, Handlers: handlers})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- q.Work(ctx, p, queue.WorkConfig{}) }()
	return q, func() {
		stop()
		if err := errors.Join(<-worked, p.Close(), q.Close()); err != nil {
			panic(err)
		}
	}
}

func upper(_ context.Context, t bullpen.Task) ([]byte, error) { return append(t.Payload, '!'), nil }

func ExampleQueue_QueueStats() {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	before := q.QueueStats("mail")
	if _, err := q.Enqueue(ctx, job.Job{Queue: "mail", Name: "send"}); err != nil {
		panic(err)
	}
	now := q.QueueStats("mail")
	waits := now.Wait.Minus(&before.Wait) // of what started between the two
	fmt.Println(q.QueueNames(), now.Enqueued, waits.Count, waits.Quantile(0.99))
	// Output: [mail] 1 0 0s
}

func ExampleQueue_Enqueue() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	ctx := context.Background()
	ref, err := q.Enqueue(ctx, job.Job{Name: "greet", Payload: []byte("hello"), Key: "greeting 1"})
	if err != nil {
		panic(err) // it is not in the queue
	}
	again, err := q.Enqueue(ctx, job.Job{Name: "greet", Payload: []byte("hello"), Key: "greeting 1"})
	fmt.Println(again.ID == ref.ID, again.Existing, err)
	res, err := q.Wait(ctx, ref.ID)
	fmt.Printf("%s %v\n", res.Payload, err)
	// Output:
	// true true <nil>
	// hello! <nil>
}

func ExampleQueue_EnqueueAll() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	refs, err := q.EnqueueAll(context.Background(), []job.Job{
		{Name: "greet", Payload: []byte("one")},
		{Name: "greet", Payload: []byte("two"), Priority: job.High},
	})
	fmt.Println(len(refs), err)
	for _, ref := range refs {
		res, err := q.Wait(context.Background(), ref.ID)
		fmt.Printf("%s %v\n", res.Payload, err)
	}
	// Output:
	// 2 <nil>
	// one! <nil>
	// two! <nil>
}

func ExampleQueue_Run() {
	q, end := example(map[string]bullpen.Handler{
		"fail": func(context.Context, bullpen.Task) ([]byte, error) {
			return nil, bullpen.Fail("no such user", false)
		},
	})
	defer end()
	_, _, err := q.Run(context.Background(), job.Job{Name: "fail"})
	var e *job.EndError
	if errors.As(err, &e) {
		fmt.Println(e.Outcome, e.Reason, e.Attempts, e.Task.Message)
	}
	// Output:
	// failed final 1 no such user
}

func ExampleQueue_Wait() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	ref, err := q.Enqueue(context.Background(), job.Job{Name: "greet", Payload: []byte("hello"), Delay: time.Hour})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = q.Wait(ctx, ref.ID)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), ref.State)
	// Output:
	// true scheduled
}

func ExampleQueue_Cancel() {
	q, end := example(nil)
	defer end()
	ctx := context.Background()
	ref, err := q.Enqueue(ctx, job.Job{Name: "greet", Delay: time.Hour})
	if err != nil {
		panic(err)
	}
	fmt.Println(q.Cancel(ctx, ref.ID))
	fmt.Println(errors.Is(q.Cancel(ctx, ref.ID), job.ErrEnded))
	info, err := q.Get(ctx, ref.ID)
	fmt.Println(info.State, info.Outcome, err)
	// Output:
	// <nil>
	// true
	// canceled canceled <nil>
}

func ExampleQueue_List() {
	q, end := example(nil)
	defer end()
	ctx := context.Background()
	for i := range 3 {
		if _, err := q.Enqueue(ctx, job.Job{Name: fmt.Sprint("job ", i), Delay: time.Hour}); err != nil {
			panic(err)
		}
	}
	f := job.Filter{States: []job.State{job.Scheduled, job.Retrying}, Limit: 2}
	for {
		page, err := q.List(ctx, f)
		if err != nil {
			panic(err)
		}
		for _, j := range page.Jobs {
			fmt.Println(j.Name, j.State)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	// Output:
	// job 0 scheduled
	// job 1 scheduled
	// job 2 scheduled
}

func ExampleQueue_Pause() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	ctx := context.Background()
	if err := q.Pause(ctx, "default"); err != nil {
		panic(err)
	}
	ref, err := q.Enqueue(ctx, job.Job{Name: "greet", Payload: []byte("hello")})
	if err != nil {
		panic(err)
	}
	depth, err := q.Depth(ctx, "default")
	fmt.Println(depth[1].Priority, depth[1].Waiting, depth[1].Paused, err)
	if err := q.Resume(ctx, "default"); err != nil {
		panic(err)
	}
	res, err := q.Wait(ctx, ref.ID)
	fmt.Printf("%s %v\n", res.Payload, err)
	// Output:
	// normal 1 true <nil>
	// hello! <nil>
}

func ExampleQueue_RetryDead() {
	var fixed bool
	q, end := example(map[string]bullpen.Handler{
		"import": func(context.Context, bullpen.Task) ([]byte, error) {
			if !fixed {
				return nil, errors.New("the table is missing")
			}
			return []byte("imported"), nil
		},
	})
	defer end()
	ctx := context.Background()
	ref, _, err := q.Run(ctx, job.Job{Name: "import"})
	fmt.Println(err != nil)
	dead, err := q.GetDead(ctx, ref.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(dead.Reason, dead.Attempts, dead.History[2].Error)
	fixed = true
	again, err := q.RetryDead(ctx, ref.ID)
	if err != nil {
		panic(err)
	}
	res, err := q.Wait(ctx, again.ID)
	fmt.Printf("%s %v\n", res.Payload, err)
	page, err := q.ListDead(ctx, job.Filter{})
	fmt.Println(len(page.Jobs), err)
	// Output:
	// true
	// exhausted 3 the table is missing
	// imported <nil>
	// 0 <nil>
}

// A handler runs at least once. Whatever it does outside has to be such that
// doing it twice is doing it once: here a charge is made under the job's id, and
// the bank knows by it that it was made before.
func ExampleAttemptOf() {
	bank := map[string]int{}
	charge := func(_ context.Context, t bullpen.Task) ([]byte, error) {
		a := queue.AttemptOf(t)
		if _, made := bank[t.ID]; made {
			return []byte("made before"), nil
		}
		bank[t.ID] = 100
		if a.Attempt == 1 {
			return nil, errors.New("the connection broke after the charge")
		}
		return []byte("made"), nil
	}
	q, end := example(map[string]bullpen.Handler{"charge": charge})
	defer end()
	_, res, err := q.Run(context.Background(), job.Job{Name: "charge"})
	fmt.Printf("%s %v, charges: %d\n", res.Payload, err, len(bank))
	// Output:
	// made before <nil>, charges: 1
}

// A job that cannot be finished names the task that undoes what it may have done
// by half.
func ExampleQueue_Enqueue_compensate() {
	undone := make(chan string, 1)
	q, end := example(map[string]bullpen.Handler{
		"book": func(context.Context, bullpen.Task) ([]byte, error) { return nil, bullpen.Fail("hotel is full", false) },
		"unbook": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			a := queue.AttemptOf(t)
			undone <- fmt.Sprintf("undo %s, which %s: %s", a.Task, a.Undoes, t.Payload)
			return nil, nil
		},
	})
	defer end()
	_, _, err := q.Run(context.Background(), job.Job{Name: "book", Payload: []byte("trip 9"), Compensate: "unbook"})
	fmt.Println(err != nil)
	fmt.Println(<-undone)
	// Output:
	// true
	// undo book, which failed: trip 9
}

func ExampleQueue_Events() {
	q, end := example(nil)
	feed := q.Events(0)
	ref, err := q.Enqueue(context.Background(), job.Job{Name: "greet", Delay: time.Hour})
	if err != nil {
		panic(err)
	}
	if err := q.Cancel(context.Background(), ref.ID); err != nil {
		panic(err)
	}
	for e := range feed.C {
		if e.Kind == job.TookBack {
			fmt.Println(e.Kind, e.Task)
			break
		}
	}
	fmt.Println(q.Stats().Enqueued, q.Stats().Ended)
	end()
	// Output:
	// canceled greet
	// 1 map[canceled:1]
}

func ExampleQueue_Status() {
	q, end := example(nil)
	defer end()
	status, err := q.Status(context.Background())
	fmt.Println(status.Kind, status.Jobs.Messages, err)
	// Output:
	// memory 0 <nil>
}
