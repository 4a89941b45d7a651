package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// A schedule enqueues a job at each of its ticks, once, however many nodes are in
// FireSchedules.
func ExampleQueue_FireSchedules() {
	ticks := make(chan job.Delivered, 100)
	q, end := example(map[string]bullpen.Handler{"report": func(_ context.Context, t bullpen.Task) ([]byte, error) {
		ticks <- queue.AttemptOf(t)
		return nil, nil
	}})
	ctx, stop := context.WithCancel(context.Background())
	fired := make(chan error, 1)
	go func() { fired <- q.FireSchedules(ctx) }()
	_, err := q.PutSchedule(ctx, job.Schedule{Name: "reports", Every: 100 * time.Millisecond, Job: job.Job{Name: "report"}})
	if err != nil {
		panic(err)
	}
	first, second := <-ticks, <-ticks
	fmt.Println(first.Schedule, second.Tick.Sub(first.Tick))
	stop()
	fmt.Println(<-fired)
	end()
	// Output:
	// reports 100ms
	// <nil>
}

func ExampleQueue_PutSchedule() {
	q, end := example(nil)
	defer end()
	info, err := q.PutSchedule(context.Background(), job.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", // once each night, also when clocks change
		Overlap: job.OverlapForbid,
		Job:     job.Job{Queue: "reports", Name: "render", Payload: []byte("daily")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Next.Format("15:04"), info.Missed, info.Overlap, info.Fired)
	_, err = q.PutSchedule(context.Background(), job.Schedule{Name: "never", Cron: "0 0 31 2 *", Job: job.Job{Name: "x"}})
	fmt.Println(err != nil)
	// Output:
	// 02:30 once forbid 0
	// true
}

func ExampleQueue_ListSchedules() {
	q, end := example(nil)
	defer end()
	ctx := context.Background()
	for _, name := range []string{"b", "a"} {
		if _, err := q.PutSchedule(ctx, job.Schedule{Name: name, Every: time.Hour, Job: job.Job{Name: "x"}}); err != nil {
			panic(err)
		}
	}
	if err := q.RemoveSchedule(ctx, "b"); err != nil {
		panic(err)
	}
	all, err := q.ListSchedules(ctx)
	for _, s := range all {
		fmt.Println(s.Name, s.Every, s.Fired)
	}
	fmt.Println(err)
	_, err = q.GetSchedule(ctx, "b")
	fmt.Println(errors.Is(err, job.ErrNoSchedule))
	// Output:
	// a 1h0m0s 0
	// <nil>
	// true
}

// While a schedule is paused it has no ticks, and misses none.
func ExampleQueue_PauseSchedule() {
	q, end := example(nil)
	defer end()
	ctx := context.Background()
	if _, err := q.PutSchedule(ctx, job.Schedule{Name: "a", Every: time.Hour, Job: job.Job{Name: "x"}}); err != nil {
		panic(err)
	}
	info, err := q.PauseSchedule(ctx, "a", true)
	fmt.Println(info.Paused, info.Next.IsZero(), err)
	info, err = q.PauseSchedule(ctx, "a", false)
	fmt.Println(info.Paused, info.Next.IsZero(), err)
	// Output:
	// true true <nil>
	// false false <nil>
}

// A job of a schedule can be had at once, whatever its rule says.
func ExampleQueue_FireSchedule() {
	q, end := example(map[string]bullpen.Handler{"greet": upper})
	defer end()
	ctx := context.Background()
	_, err := q.PutSchedule(ctx, job.Schedule{Name: "yearly", Cron: "@yearly", Job: job.Job{Name: "greet", Payload: []byte("new year")}})
	if err != nil {
		panic(err)
	}
	ref, err := q.FireSchedule(ctx, "yearly")
	if err != nil {
		panic(err)
	}
	r, err := q.Wait(ctx, ref.ID)
	fmt.Printf("%s %v\n", r.Payload, err)
	info, err := q.GetSchedule(ctx, "yearly")
	fmt.Println(info.LastJob == ref.ID, info.LastState, err)
	// Output:
	// new year! <nil>
	// true done <nil>
}
