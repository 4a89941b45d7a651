package job_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

func ExampleJob_Check() {
	j := job.Job{Name: "send", Queue: "Mail", Delay: -time.Second}
	fmt.Println(j.Check())
	// Output:
	// job "send" is not valid: Queue is "Mail": use lower-case letters, digits, "-" and "_" only
	// Delay is -1s: use a positive duration, or 0 for none
}

func ExampleJob_Late() {
	deadline := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	j := job.Job{Deadline: deadline}
	fmt.Println(j.Late(deadline.Add(-time.Second)), j.Late(deadline))
	// Output: false true
}

func ExampleParsePriority() {
	p, err := job.ParsePriority("high")
	fmt.Println(p == job.High, err)
	_, err = job.ParsePriority("urgent")
	fmt.Println(err)
	// Output:
	// true <nil>
	// unknown priority "urgent": use high, normal or low
}

func ExampleParseState() {
	s, err := job.ParseState("dead")
	fmt.Println(s == job.Dead, s.Ended(), err)
	// Output: true true <nil>
}

func ExampleParseBatchState() {
	s, err := job.ParseBatchState("running")
	fmt.Println(s == job.BatchRunning, err)
	// Output: true <nil>
}

func ExampleBatchState_Move() {
	fmt.Println(job.BatchOpen.Move(job.BatchRunning))
	fmt.Println(job.BatchDone.Move(job.BatchRunning) != nil)
	// Output:
	// <nil>
	// true
}

func ExampleBatch_Check() {
	b := job.Batch{Then: &job.Job{Name: "report", Key: "one"}}
	fmt.Println(b.Check())
	// Output: the batch is not valid: Then has a key: leave it out, it is enqueued once by itself
}

func ExampleBatchInfo_HasEnded() {
	i := job.BatchInfo{State: job.BatchDone, EndedAt: time.Now(), ThenJob: &job.Job{Name: "report"}}
	fmt.Println(i.HasEnded()) // the callback is not enqueued yet
	i.ThenID = "01JD3W4Z9V8Q2M6X0C5T7B1N4K"
	fmt.Println(i.HasEnded())
	// Output:
	// false
	// true
}

// A policy that says nothing of something has that from another one.
func ExampleRetry_Over() {
	usual := job.Retry{Attempts: 5, Backoff: time.Second, MaxBackoff: time.Minute}
	r := job.Retry{Attempts: 2}.Over(usual)
	fmt.Println(r.Attempts, r.Backoff, r.MaxBackoff)
	// Output: 2 1s 1m0s
}

func ExampleRetry_Delay() {
	r := job.Retry{Backoff: time.Second, MaxBackoff: 3 * time.Second}
	fmt.Println(r.Delay(1, 0), r.Delay(2, 0), r.Delay(3, 0), r.Delay(1, 0.5))
	// Output: 1s 2s 3s 750ms
}

func ExampleRetry_Allows() {
	r := job.Retry{On: []bullpen.Outcome{bullpen.Failed}}
	fmt.Println(r.Allows(bullpen.Failed), r.Allows(bullpen.Timeout))
	// Output: true false
}

func ExampleRetry_Check() {
	fmt.Println(job.Retry{Attempts: -1}.Check("Retry"))
	// Output: [Retry.Attempts is -1: use a number from 1 to 65536, or 0 for the default]
}

func ExampleFilter_Check() {
	f := job.Filter{Outcome: "sad"}
	fmt.Println(f.Check() != nil)
	// Output: true
}

// How a job ended that did not end well says errors.Is as the end of a task does.
func ExampleEndError() {
	var err error = &job.EndError{ID: "01JD3W4Z9V8Q2M6X0C5T7B1N4K", Outcome: bullpen.Timeout, Reason: job.Expired, Message: "its deadline passed before it started"}
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// job 01JD3W4Z9V8Q2M6X0C5T7B1N4K ended timeout (expired): its deadline passed before it started
	// true
}

func ExampleCheckToken() {
	fmt.Println(job.CheckToken("Queue", "mail"))
	fmt.Println(job.CheckToken("Queue", "e mail"))
	// Output:
	// <nil>
	// Queue is "e mail": use lower-case letters, digits, "-" and "_" only
}

func ExampleCheckScheduleName() {
	fmt.Println(job.CheckScheduleName("nightly.report"))
	// Output: <nil>
}

func ExampleGroupLimits_AtOnce() {
	fmt.Println(job.GroupLimits{Rate: 2.5}.AtOnce(), job.GroupLimits{Rate: 2.5, Burst: 10}.AtOnce())
	// Output: 3 10
}

func ExampleGroupLimits_Check() {
	fmt.Println(job.GroupLimits{Concurrency: 2, Burst: 3}.Check())
	// Output: Burst is set without Rate: set both, or none
}

func ExampleSchedule_Upcoming() {
	s := job.Schedule{Name: "working-hours", Cron: "0 9-17/4 * * mon-fri", Zone: "UTC"}
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
	s := job.Schedule{Name: "Nightly", Job: job.Job{Name: "x"}}
	fmt.Println(s.Check())
	// Output:
	// schedule "Nightly" is not valid: Name is "Nightly": use lower-case letters, digits, "-", "_" and "." only
	// Cron and Every are both empty: set one, such as Cron "30 2 * * *" or Every 5m
}

func ExampleParseMissed() {
	m, err := job.ParseMissed("all")
	fmt.Println(m == job.MissedAll, err)
	_, err = job.ParseMissed("some")
	fmt.Println(err)
	// Output:
	// true <nil>
	// unknown rule for missed ticks "some": use once, skip or all
}

func ExampleParseOverlap() {
	o, err := job.ParseOverlap("forbid")
	fmt.Println(o == job.OverlapForbid, err)
	_, err = job.ParseOverlap("maybe")
	fmt.Println(err)
	// Output:
	// true <nil>
	// unknown rule for overlaps "maybe": use allow or forbid
}
