package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/queue"
)

// A schedule enqueues a job at each of its ticks, once, however many nodes are in
// FireSchedules.
func ExampleQueue_FireSchedules() {
	ticks := make(chan queue.Delivered, 100)
	q, end := example(map[string]bullpen.Handler{"report": func(_ context.Context, t bullpen.Task) ([]byte, error) {
		ticks <- queue.AttemptOf(t)
		return nil, nil
	}})
	ctx, stop := context.WithCancel(context.Background())
	fired := make(chan error, 1)
	go func() { fired <- q.FireSchedules(ctx) }()
	_, err := q.PutSchedule(ctx, queue.Schedule{Name: "reports", Every: 100 * time.Millisecond, Job: queue.Job{Name: "report"}})
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
	info, err := q.PutSchedule(context.Background(), queue.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", // once each night, also when clocks change
		Overlap: queue.OverlapForbid,
		Job:     queue.Job{Queue: "reports", Name: "render", Payload: []byte("daily")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Next.Format("15:04"), info.Missed, info.Overlap, info.Fired)
	_, err = q.PutSchedule(context.Background(), queue.Schedule{Name: "never", Cron: "0 0 31 2 *", Job: queue.Job{Name: "x"}})
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
		if _, err := q.PutSchedule(ctx, queue.Schedule{Name: name, Every: time.Hour, Job: queue.Job{Name: "x"}}); err != nil {
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
	fmt.Println(errors.Is(err, queue.ErrNoSchedule))
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
	if _, err := q.PutSchedule(ctx, queue.Schedule{Name: "a", Every: time.Hour, Job: queue.Job{Name: "x"}}); err != nil {
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
	_, err := q.PutSchedule(ctx, queue.Schedule{Name: "yearly", Cron: "@yearly", Job: queue.Job{Name: "greet", Payload: []byte("new year")}})
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

func ExampleSchedule_Upcoming() {
	s := queue.Schedule{Name: "working-hours", Cron: "0 9-17/4 * * mon-fri", Zone: "UTC"}
	ticks, err := s.Upcoming(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), 3)
	for _, t := range ticks {
		fmt.Println(t.Format("Mon 15:04"))
	}
	fmt.Println(err)
	// Output:
	// Fri 13:00
	// Fri 17:00
	// Mon 09:00
	// <nil>
}

func ExampleSchedule_Check() {
	s := queue.Schedule{Name: "Nightly", Job: queue.Job{Name: "x"}}
	fmt.Println(s.Check(queue.Config{}))
	// Output:
	// schedule "Nightly" is not valid: Name is "Nightly": use lower-case letters, digits, "-", "_" and "." only
	// Cron and Every are both empty: set one, such as Cron "30 2 * * *" or Every 5m
}

func ExampleParseMissed() {
	m, err := queue.ParseMissed("all")
	fmt.Println(m == queue.MissedAll, err)
	_, err = queue.ParseMissed("some")
	fmt.Println(err)
	// Output:
	// true <nil>
	// unknown rule for missed ticks "some": use once, skip or all
}

func ExampleParseOverlap() {
	o, err := queue.ParseOverlap("forbid")
	fmt.Println(o == queue.OverlapForbid, err)
	_, err = queue.ParseOverlap("maybe")
	fmt.Println(err)
	// Output:
	// true <nil>
	// unknown rule for overlaps "maybe": use allow or forbid
}
