package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// calendar makes a client of a daemon with one schedule, for the examples: what it
// says is fixed.
func calendar() (*client.Client, func()) {
	const nightly = `{"name":"nightly","pool":"reports","cron":"30 2 * * *","zone":"Europe/Berlin","missed":"once","overlap":"forbid",` +
		`"paused":%v,"job":{"payload":"daily"},"next":"2026-11-22T01:30:00Z","last":"2026-11-21T01:30:00Z","last_job":"01J","last_state":"done","fired":7,"skipped":1}`
	answers := map[string]string{
		"GET /v1/schedules":                 `{"schedules":[` + fmt.Sprintf(nightly, false) + `]}`,
		"GET /v1/schedules/nightly":         fmt.Sprintf(nightly, false),
		"PUT /v1/schedules/nightly":         fmt.Sprintf(nightly, false),
		"DELETE /v1/schedules/nightly":      "",
		"POST /v1/schedules/nightly/pause":  fmt.Sprintf(nightly, true),
		"POST /v1/schedules/nightly/resume": fmt.Sprintf(nightly, false),
		"POST /v1/schedules/nightly/run":    `{"id":"01K","pool":"reports","state":"queued"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.Method+" "+r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			text = `{"cause":"not-found","status":404}`
		}
		_, _ = io.WriteString(w, text)
	}))
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		panic(err)
	}
	return c, func() { c.Close(); server.Close() }
}

func ExampleClient_PutSchedule() {
	c, end := calendar()
	defer end()
	s, err := c.PutSchedule(context.Background(), job.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Overlap: job.OverlapForbid,
		Job: job.Job{Queue: "reports", Payload: []byte("daily")},
	})
	fmt.Println(s.Next.UTC().Format(time.RFC3339), s.Missed, err)
	// Output: 2026-11-22T01:30:00Z once <nil>
}

func ExampleClient_Schedules() {
	c, end := calendar()
	defer end()
	all, err := c.Schedules(context.Background())
	for _, s := range all {
		fmt.Println(s.Name, s.Job.Queue, s.Cron, s.Fired, s.LastState)
	}
	fmt.Println(err)
	// Output:
	// nightly reports 30 2 * * * 7 done
	// <nil>
}

func ExampleClient_Schedule() {
	c, end := calendar()
	defer end()
	s, err := c.Schedule(context.Background(), "nightly")
	fmt.Printf("%s %s %v\n", s.Job.Payload, s.LastJob, err)
	// Output: daily 01J <nil>
}

func ExampleClient_RunSchedule() {
	c, end := calendar()
	defer end()
	ref, err := c.RunSchedule(context.Background(), "nightly")
	fmt.Println(ref.ID, ref.State, err)
	// Output: 01K queued <nil>
}

func ExampleClient_PauseSchedule() {
	c, end := calendar()
	defer end()
	s, err := c.PauseSchedule(context.Background(), "nightly")
	fmt.Println(s.Paused, err)
	// Output: true <nil>
}

func ExampleClient_ResumeSchedule() {
	c, end := calendar()
	defer end()
	s, err := c.ResumeSchedule(context.Background(), "nightly")
	fmt.Println(s.Paused, err)
	// Output: false <nil>
}

func ExampleClient_RemoveSchedule() {
	c, end := calendar()
	defer end()
	fmt.Println(c.RemoveSchedule(context.Background(), "nightly"))
	// Output: <nil>
}
