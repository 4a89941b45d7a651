package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
)

// daemon speaks the API as far as executors need it, over executors of this
// process. What it stores it keeps in memory.
type daemon struct {
	executor bullpen.Executor
	helper   bullpen.Executor // runs what tasks wait for

	mu   sync.Mutex
	runs map[string]context.CancelCauseFunc // guarded by mu
	jobs map[string]*daemonJob              // by id and by "key "+key; guarded by mu
	all  sync.WaitGroup                     // jobs that run
}

// daemonJob is one that was enqueued.
type daemonJob struct {
	id     string
	key    string
	nested bool // a job that runs waits for it
	cancel context.CancelCauseFunc
	done   chan struct{}
	result bullpen.Result // before done is closed
	err    error          // the same

	mu     sync.Mutex
	events []string // guarded by mu
}

// Progress and Log keep what is reported.
func (j *daemonJob) Progress(fraction float64, note string) {
	j.keep("progress", map[string]any{"fraction": fraction, "note": note})
}

func (j *daemonJob) Log(l bullpen.LogLine) { j.keep("log", logJSON(l)) }

func logJSON(l bullpen.LogLine) map[string]any {
	return map[string]any{"time": l.Time, "level": l.Level, "stream": l.Stream, "text": l.Text}
}

func (j *daemonJob) keep(kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf("id: 1.%d\nevent: %s\ndata: %s\n\n", len(j.events)+1, kind, text))
}

// serve starts a daemon, which ends with the test.
func serve(t *testing.T, executor, helper bullpen.Executor) (*daemon, string) {
	t.Helper()
	d := &daemon{executor: executor, helper: helper, runs: map[string]context.CancelCauseFunc{}, jobs: map[string]*daemonJob{}}
	server := httptest.NewServer(d.handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		_ = executor.Close() // what is stuck is for the tests to see
		server.Close()
		d.all.Wait()
		if helper != nil {
			_ = helper.Close()
		}
	})
	return d, server.URL
}

// connect makes a client, which ends with the test.
func connect(t *testing.T, c client.Config) *client.Client {
	t.Helper()
	made, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/pools/{pool}/run", d.run)
	mux.HandleFunc("DELETE /v1/run/{id}", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		cancel := d.runs[r.PathValue("id")]
		d.mu.Unlock()
		if cancel == nil {
			writeProblem(w, http.StatusNotFound, "not-found", nil)
			return
		}
		cancel(context.Canceled)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /v1/pools/{pool}/jobs", d.enqueue)
	mux.HandleFunc("GET /v1/jobs/{id}/result", d.result)
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if j := d.find(w, r); j != nil {
			writeJSON(w, http.StatusOK, map[string]any{"id": j.id, "state": "running", "key": j.key})
		}
	})
	mux.HandleFunc("GET /v1/jobs/{id}/events", d.events)
	mux.HandleFunc("POST /v1/jobs/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		if j := d.find(w, r); j != nil {
			j.cancel(context.Canceled)
			writeJSON(w, http.StatusOK, map[string]any{"id": j.id, "state": "canceled"})
		}
	})
	return mux
}

// taskOf reads a task from a request.
func taskOf(r *http.Request) (t bullpen.Task, deadline time.Time, err error) {
	q := r.URL.Query()
	t = bullpen.Task{ID: q.Get("id"), Name: q.Get("task")}
	if text := q.Get("deadline"); text != "" {
		deadline, err = time.Parse(time.RFC3339Nano, text)
	}
	if text := q.Get("timeout"); text != "" && err == nil {
		t.Limits.Timeout, err = time.ParseDuration(text)
	}
	if text := q.Get("memory"); text != "" && err == nil {
		t.Limits.Memory, err = strconv.ParseInt(text, 10, 64)
	}
	if text := q.Get("cpu"); text != "" && err == nil {
		t.Limits.CPU, err = strconv.ParseFloat(text, 64)
	}
	if text := q.Get("output"); text != "" && err == nil {
		t.Limits.Output, err = strconv.Atoi(text)
	}
	if text := r.Header.Get("Bullpen-Meta"); text != "" && err == nil {
		var meta url.Values
		if meta, err = url.ParseQuery(text); err == nil {
			t.Meta = map[string]string{}
			for k := range meta {
				t.Meta[k] = meta.Get(k)
			}
		}
	}
	if err == nil {
		t.Payload, err = io.ReadAll(r.Body)
	}
	return t, deadline, err
}

func (d *daemon) run(w http.ResponseWriter, r *http.Request) {
	t, deadline, err := taskOf(r)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, "bad-request", map[string]any{"faults": []string{err.Error()}})
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if !deadline.IsZero() {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, deadline)
		defer end()
	}
	executor := d.executor
	d.mu.Lock()
	if d.runs[t.ID] != nil {
		d.mu.Unlock()
		writeProblem(w, http.StatusConflict, "busy-id", nil)
		return
	}
	if d.runs[r.Header.Get("Bullpen-Parent")] != nil {
		executor = d.helper
	}
	d.runs[t.ID] = cancel
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.runs, t.ID)
	}()
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		d.runWatched(ctx, w, executor, t)
		return
	}
	res, err := bullpen.Execute(ctx, executor, t)
	if err != nil && executor == d.helper && errors.Is(err, bullpen.ErrOverloaded) {
		writeProblem(w, http.StatusConflict, "nested", nil)
		return
	}
	writeEnd(w, "Bullpen-Task", t.ID, res, err)
}

// observer writes what a task says of itself as events.
type observer struct {
	mu sync.Mutex
	w  http.ResponseWriter // guarded by mu
}

func (o *observer) event(kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, text)
	o.w.(http.Flusher).Flush()
}

func (o *observer) Progress(fraction float64, note string) {
	o.event("progress", map[string]any{"fraction": fraction, "note": note})
}
func (o *observer) Log(l bullpen.LogLine) { o.event("log", logJSON(l)) }

func (d *daemon) runWatched(ctx context.Context, w http.ResponseWriter, e bullpen.Executor, t bullpen.Task) {
	w.Header().Set("Content-Type", "text/event-stream")
	o := &observer{w: w}
	t.Observer = o
	res, err := bullpen.Execute(ctx, e, t)
	if err != nil {
		status, cause, more := problemOf(err)
		o.event("problem", problemJSON(status, cause, more))
		return
	}
	o.event("result", map[string]any{
		"payload_base64": base64.StdEncoding.EncodeToString(res.Payload),
		"stats":          map[string]any{"ran": res.Stats.Ran.Seconds(), "worker": res.Stats.Worker},
	})
}

// enqueue takes a job, and runs it.
func (d *daemon) enqueue(w http.ResponseWriter, r *http.Request) {
	t, deadline, err := taskOf(r)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, "bad-request", nil)
		return
	}
	key := "key " + r.URL.Query().Get("key")
	d.mu.Lock()
	j := d.jobs[key]
	existing := j != nil
	if !existing {
		ctx, cancel := context.WithCancelCause(context.Background())
		j = &daemonJob{id: fmt.Sprint("job-", len(d.jobs)), cancel: cancel, done: make(chan struct{})}
		d.jobs[j.id] = j
		j.key = r.URL.Query().Get("key")
		j.nested = r.Header.Get("Bullpen-Parent") != ""
		if key != "key " {
			d.jobs[key] = j
		}
		t.Observer, t.ID = j, j.id
		d.all.Go(func() { d.work(ctx, j, t, deadline) }) // ends with the job; the end of the test waits for it
	}
	d.mu.Unlock()
	d.answer(w, r, j, existing)
}

// work runs a job until its end.
func (d *daemon) work(ctx context.Context, j *daemonJob, t bullpen.Task, deadline time.Time) {
	defer close(j.done)
	defer j.cancel(nil)
	if !deadline.IsZero() {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, deadline)
		defer end()
	}
	executor := d.executor
	if j.nested {
		executor = d.helper
	}
	j.result, j.err = bullpen.Execute(ctx, executor, t)
}

// answer answers with the end of a job, or that it goes on.
func (d *daemon) answer(w http.ResponseWriter, r *http.Request, j *daemonJob, existing bool) {
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-j.done:
		if wait > 0 || r.Method == http.MethodGet {
			writeEnd(w, "Bullpen-Job", j.id, j.result, j.err)
			return
		}
	case <-r.Context().Done():
	case <-timer.C:
	}
	writeJSON(w, http.StatusAccepted, map[string]any{"id": j.id, "pool": r.PathValue("pool"), "state": "queued", "existing": existing})
}

func (d *daemon) find(w http.ResponseWriter, r *http.Request) *daemonJob {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[r.PathValue("id")]
	if j == nil {
		writeProblem(w, http.StatusNotFound, "not-found", nil)
	}
	return j
}

func (d *daemon) result(w http.ResponseWriter, r *http.Request) {
	if j := d.find(w, r); j != nil {
		d.answer(w, r, j, true)
	}
}

// events tells what a job has said once it has ended.
func (d *daemon) events(w http.ResponseWriter, r *http.Request) {
	j := d.find(w, r)
	if j == nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	select {
	case <-j.done:
	case <-r.Context().Done():
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		fmt.Fprint(w, e)
	}
	state := "done"
	if j.err != nil {
		state = "dead"
	}
	fmt.Fprintf(w, "id: 2.0\nevent: end\ndata: {\"id\":%q,\"state\":%q}\n\n", j.id, state)
}
