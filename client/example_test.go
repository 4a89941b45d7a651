package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// thumbnailAnswers are what the daemon of the examples says.
func thumbnailAnswers() map[string]string {
	const job = `{"id":"01J","pool":"thumbnails","task":"thumbnail","state":"%s","attempts":2,"outcome":"%s","reason":"%s"` +
		`,"failure":{"outcome":"crashed","task":"thumbnail","signal":"killed","detail":"out of cheese"},"payload_base64":"anBlZw=="}`
	const pool = `{"name":"thumbnails","state":"open","min":1,"max":8,"paused":%v,"workers":{"idle":2,"busy":1}}`
	const groups = `{"limits":{"concurrency":2,"rate":0,"burst":0},"groups":[{"group":"cats","waiting":3,"running":1,"limits":{"concurrency":1,"rate":0.5,"burst":0},"own":true}]}`
	const batch = `{"id":"01B","state":"%s","total":2,"ended":2,"ok":%d,"ended_at":"2026-01-01T00:00:00Z","then":{"pool":"mail"},"then_id":"01T"}`
	return map[string]string{
		"POST /v1/pools/thumbnails/jobs":     `{"id":"01J","pool":"thumbnails","state":"queued"}`,
		"POST /v1/pools/thumbnails/bulk":     `{"id":"01J","state":"queued"}` + "\n" + `{"id":"01K","state":"done","existing":true}`,
		"POST /v1/pools/thumbnails/run":      "small picture",
		"GET /v1/jobs/01J":                   fmt.Sprintf(job, "running", "", ""),
		"GET /v1/jobs/01J/result":            "small picture",
		"GET /v1/jobs/01J/payload":           "jpeg",
		"GET /v1/jobs/01J/events":            "id: 1.1\nevent: progress\ndata: {\"fraction\":0.5}\n\nid: 2.0\nevent: end\ndata: {\"id\":\"01J\",\"state\":\"done\"}\n\n",
		"GET /v1/jobs":                       `{"jobs":[` + fmt.Sprintf(job, "running", "", "") + `]}`,
		"POST /v1/jobs/01J/cancel":           fmt.Sprintf(job, "canceled", "canceled", "canceled"),
		"POST /v1/jobs/01J/retry":            `{"id":"01K","pool":"thumbnails","state":"queued"}`,
		"GET /v1/dead":                       `{"jobs":[` + fmt.Sprintf(job, "dead", "crashed", "quarantined") + `]}`,
		"GET /v1/dead/01J":                   fmt.Sprintf(job, "dead", "crashed", "quarantined"),
		"POST /v1/dead/01J/retry":            `{"id":"01K","pool":"thumbnails","state":"queued"}`,
		"DELETE /v1/dead/01J":                "",
		"GET /v1/dead/causes":                `{"causes":[{"cause":"89af7e51c13b","task":"thumbnail","error":"no file \"…\"","count":17}],"jobs":17}`,
		"POST /v1/jobs/cancel":               `{"count":2}`,
		"POST /v1/jobs/retry":                `{"count":2}`,
		"POST /v1/dead/retry":                `{"count":3}`,
		"POST /v1/dead/remove":               `{"count":3}`,
		"GET /v1/pools":                      `{"pools":[` + fmt.Sprintf(pool, false) + `]}`,
		"GET /v1/pools/thumbnails":           fmt.Sprintf(pool, false),
		"POST /v1/pools/thumbnails/scale":    fmt.Sprintf(pool, false),
		"POST /v1/pools/thumbnails/pause":    fmt.Sprintf(pool, true),
		"POST /v1/pools/thumbnails/resume":   fmt.Sprintf(pool, false),
		"POST /v1/pools/thumbnails/reload":   fmt.Sprintf(pool, false),
		"GET /v1/overview":                   `{"now":"2026-01-01T00:00:00Z","pools":[{"name":"thumbnails","waiting":7,"rate":12.5,"errors":0.5,"wait_p99":0.25}],"totals":{"waiting":7}}`,
		"GET /v1/workers":                    `{"workers":[{"pool":"thumbnails","id":"thumbnails-1","state":"busy","tasks":3,"age":90,"task":"01J","task_age":1.5}]}`,
		"POST /v1/workers/w1/recycle":        "",
		"GET /v1/status":                     `{"version":"1.0","ready":true,"uptime":90}`,
		"POST /v1/backup":                    `{"dir":"/var/backups/bullpen-2026-11-22"}`,
		"POST /v1/reload":                    `{"changed":["thumbnails"]}`,
		"POST /v1/chains":                    `{"id":"01J","pool":"thumbnails","state":"queued"}`,
		"POST /v1/batches":                   `{"id":"01B","state":"open","total":0}`,
		"POST /v1/batches/01B/jobs":          `{"id":"01J","state":"queued"}` + "\n" + `{"id":"01K","state":"queued"}`,
		"POST /v1/batches/01B/seal":          fmt.Sprintf(batch, "running", 0),
		"POST /v1/batches/01B/cancel":        fmt.Sprintf(batch, "canceled", 1),
		"GET /v1/batches/01B":                fmt.Sprintf(batch, "done", 2),
		"GET /v1/batches/01B/jobs":           `{"jobs":[` + fmt.Sprintf(job, "done", "ok", "") + `]}`,
		"GET /v1/batches":                    `{"batches":[` + fmt.Sprintf(batch, "done", 2) + `]}`,
		"GET /v1/pools/thumbnails/groups":    groups,
		"PUT /v1/pools/thumbnails/groups":    groups,
		"DELETE /v1/pools/thumbnails/groups": groups,
	}
}

// thumbnails is a daemon of one pool, for the examples: what it says is fixed.
func thumbnails() (url string, end func()) {
	answers := thumbnailAnswers()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.Method+" "+r.URL.Path]
		switch {
		case !known:
			w.WriteHeader(http.StatusNotFound)
			text = `{"cause":"not-found","status":404}`
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.Header().Set("Content-Type", "text/event-stream")
		case strings.HasPrefix(r.URL.Path, "/v1/batches"):
		case strings.HasSuffix(r.URL.Path, "/recycle"):
			w.WriteHeader(http.StatusAccepted)
		case strings.HasSuffix(r.URL.Path, "/jobs") && r.URL.Query().Get("wait") != "":
			text = "small picture"
			w.Header().Set("Bullpen-Job", "01J")
		case strings.HasSuffix(text, `"queued"}`):
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, text)
	}))
	return server.URL, server.Close
}

// example makes a client of the daemon of the examples.
func example() (*client.Client, func()) {
	url, end := thumbnails()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		panic(err)
	}
	return c, func() { c.Close(); end() }
}

func ExampleNew() {
	url, end := thumbnails()
	defer end()
	c, err := client.New(client.Config{URL: url, Token: "read-the-tokens-file"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ref, err := c.Enqueue(context.Background(), job.Job{Queue: "thumbnails", Payload: []byte("jpeg")})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.Wait(context.Background(), ref.ID)
	fmt.Printf("%s: %s, %v\n", ref.ID, r.Payload, err)
	// Output: 01J: small picture, <nil>
}

// A job with a key is stored once, however often it is enqueued.
func ExampleClient_Enqueue() {
	c, end := example()
	defer end()
	ref, err := c.Enqueue(context.Background(), job.Job{
		Queue: "thumbnails", Payload: []byte("jpeg"), Key: "cat.jpeg",
		Priority: job.Low, Delay: time.Minute, Retry: job.Retry{Attempts: 3},
	})
	fmt.Println(ref.ID, ref.State, err)
	// Output: 01J queued <nil>
}

func ExampleClient_EnqueueAll() {
	c, end := example()
	defer end()
	refs, err := c.EnqueueAll(context.Background(), []job.Job{
		{Queue: "thumbnails", Payload: []byte("cat")},
		{Queue: "thumbnails", Payload: []byte("dog"), Key: "dog"},
	})
	for _, ref := range refs {
		fmt.Println(ref.ID, ref.State, ref.Existing)
	}
	fmt.Println(err)
	// Output:
	// 01J queued false
	// 01K done true
	// <nil>
}

// Jobs come from a sequence of any length; only a few are in memory at a time.
func ExampleClient_EnqueueSeq() {
	c, end := example()
	defer end()
	jobs := slices.Values([]job.Job{
		{Queue: "thumbnails", Payload: []byte("cat")},
		{Queue: "thumbnails", Payload: []byte("dog")},
	})
	for ref, err := range c.EnqueueSeq(context.Background(), jobs) {
		fmt.Println(ref.ID, err)
	}
	// Output:
	// 01J <nil>
	// 01K <nil>
}

func ExampleClient_Run() {
	c, end := example()
	defer end()
	ref, r, err := c.Run(context.Background(), job.Job{Queue: "thumbnails", Payload: []byte("jpeg")})
	fmt.Printf("%s: %s, %v\n", ref.ID, r.Payload, err)
	// Output: 01J: small picture, <nil>
}

func ExampleClient_RunEphemeral() {
	c, end := example()
	defer end()
	r, err := c.RunEphemeral(context.Background(), "thumbnails", bullpen.Task{Name: "thumbnail", Payload: []byte("jpeg")})
	fmt.Printf("%s, %v\n", r.Payload, err)
	// Output: small picture, <nil>
}

func ExampleClient_Wait() {
	c, end := example()
	defer end()
	r, err := c.Wait(context.Background(), "01J")
	var ended *job.EndError
	switch {
	case errors.As(err, &ended):
		fmt.Println("it ended badly:", ended.Outcome, ended.Reason)
	case err != nil:
		fmt.Println("how it ended is not known yet:", err)
	default:
		fmt.Printf("%s\n", r.Payload)
	}
	// Output: small picture
}

func ExampleClient_Result() {
	c, end := example()
	defer end()
	r, err := c.Result(context.Background(), "01J")
	fmt.Printf("%s, %v\n", r.Payload, err)
	// Output: small picture, <nil>
}

func ExampleClient_Get() {
	c, end := example()
	defer end()
	info, err := c.Get(context.Background(), "01J")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Name, info.State, info.Attempts)
	_, err = c.Get(context.Background(), "01X")
	fmt.Println(errors.Is(err, job.ErrNotFound))
	// Output:
	// thumbnail running 2
	// true
}

func ExampleClient_Payload() {
	c, end := example()
	defer end()
	payload, err := c.Payload(context.Background(), "01J")
	fmt.Printf("%s %v\n", payload, err)
	// Output: jpeg <nil>
}

func ExampleClient_List() {
	c, end := example()
	defer end()
	page, err := c.List(context.Background(), job.Filter{Queue: "thumbnails", States: []job.State{job.Running}, Limit: 10})
	fmt.Println(len(page.Jobs), page.Next == "", err)
	// Output: 1 true <nil>
}

func ExampleClient_Jobs() {
	c, end := example()
	defer end()
	for info, err := range c.Jobs(context.Background(), job.Filter{Queue: "thumbnails"}) {
		fmt.Println(info.ID, info.State, err)
	}
	// Output: 01J running <nil>
}

func ExampleClient_Cancel() {
	c, end := example()
	defer end()
	info, err := c.Cancel(context.Background(), "01J")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.State)
	// Output: canceled
}

func ExampleClient_Retry() {
	c, end := example()
	defer end()
	ref, err := c.Retry(context.Background(), "01J")
	fmt.Println(ref.ID, err)
	// Output: 01K <nil>
}

// What happens to a job, until it has ended.
func ExampleClient_Follow() {
	c, end := example()
	defer end()
	for event, err := range c.Follow(context.Background(), "01J", "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch event.Kind {
		case client.Progressed:
			fmt.Println(event.Fraction)
		case client.Ended:
			fmt.Println(event.Job.State)
		case client.StateChanged, client.Logged, client.Missed:
		}
	}
	// Output:
	// 0.5
	// done
}

func ExampleClient_ListDead() {
	c, end := example()
	defer end()
	page, err := c.ListDead(context.Background(), job.Filter{Reason: job.Quarantined})
	fmt.Println(len(page.Jobs), err)
	// Output: 1 <nil>
}

func ExampleClient_Dead() {
	c, end := example()
	defer end()
	for info, err := range c.Dead(context.Background(), job.Filter{Reason: job.Quarantined}) {
		fmt.Println(info.ID, info.Outcome, err)
	}
	// Output: 01J crashed <nil>
}

// Why a job died, with the last output of its worker.
func ExampleClient_GetDead() {
	c, end := example()
	defer end()
	info, err := c.GetDead(context.Background(), "01J")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Err)
	if end, ok := errors.AsType[*job.EndError](info.Err); ok && end.Task != nil {
		fmt.Printf("%s, %s\n", end.Task.Detail, info.Payload)
	}
	// Output:
	// job 01J ended crashed (quarantined) after 2 attempts: task "thumbnail" 01J crashed (worker ended by signal killed)
	// out of cheese, jpeg
}

func ExampleClient_RetryDead() {
	c, end := example()
	defer end()
	ref, err := c.RetryDead(context.Background(), "01J")
	fmt.Println(ref.ID, err)
	// Output: 01K <nil>
}

func ExampleClient_RemoveDead() {
	c, end := example()
	defer end()
	fmt.Println(c.RemoveDead(context.Background(), "01J"))
	// Output: <nil>
}

func ExampleClient_RetryDeadAll() {
	c, end := example()
	defer end()
	swept, err := c.RetryDeadAll(context.Background(), job.Filter{Queue: "thumbnails", Outcome: bullpen.Timeout.String()})
	fmt.Println(swept.Count, swept.More, err)
	// Output: 3 false <nil>
}

func ExampleClient_RemoveDeadAll() {
	c, end := example()
	defer end()
	swept, err := c.RemoveDeadAll(context.Background(), job.Filter{})
	fmt.Println(swept.Count, err)
	// Output: 3 <nil>
}
