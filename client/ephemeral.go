package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// ephemeral runs tasks that bypass the queue: each is one request, answered when the
// task has ended.
type ephemeral struct {
	ids

	client *Client
	path   string
}

func (c *Client) newEphemeral(pool string) *ephemeral {
	return &ephemeral{ids: newIDs(), client: c, path: poolPath(pool, "/run")}
}

// try sends the task to the daemon and waits for its end.
func (e *ephemeral) try(ctx context.Context, r *run, sent *sending) (bullpen.Result, error) {
	var q query
	j := job.Job{Name: r.task.Name, Limits: r.task.Limits}
	j.Deadline, _ = r.ctx.Deadline()
	j.Parameters(q.text)
	q.text("id", r.id)
	c := call{method: http.MethodPost, path: e.path, query: q.String(), body: newSource(r.task.Payload), long: true}
	c.header = e.client.submitHeader(r.task.Meta, r.parent, true, r.trace)
	defer c.body.release()
	if _, ok := r.task.Observer.(bullpen.ChunkObserver); ok {
		c.query += "&chunks=true" // after the id
	}
	if r.task.Observer != nil {
		return e.watched(ctx, c, r.task.Observer, sent)
	}
	a, err := e.client.exchange(ctx, ctx, c, sent)
	if err != nil {
		return bullpen.Result{}, err
	}
	return a.result(), nil
}

// watched runs a task and passes its progress and log lines to an observer.
func (e *ephemeral) watched(ctx context.Context, c call, o bullpen.Observer, sent *sending) (bullpen.Result, error) {
	if c.header == nil {
		c.header = e.client.header()
	}
	c.header["Accept"] = []string{eventStream}
	response, err := e.client.send(ctx, c, sent)
	if err != nil {
		return bullpen.Result{}, broken(ctx, ctx, sent, err)
	}
	most := e.client.config.MaxResult
	if err := streams(response, most); err != nil {
		var no *Error
		if errors.As(err, &no) && no.Err != nil {
			return bullpen.Result{}, broken(ctx, ctx, sent, no.Err)
		}
		return bullpen.Result{}, err
	}
	defer response.Body.Close()
	in := newFrames(response.Body, int64(base64.StdEncoding.EncodedLen(int(most)))+streamSlack)
	for {
		f, err := in.next()
		if errors.Is(err, ErrTooLarge) {
			return bullpen.Result{}, err
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the stream ended without a result
		}
		if err != nil {
			return bullpen.Result{}, broken(ctx, ctx, sent, err)
		}
		if res, err, ended := readRun(f, o); ended {
			return res, err
		}
	}
}

// streamSlack is the room in a stream of events for a result's fields other than its
// payload, in bytes.
const streamSlack = 64 << 10

// readRun handles one event of an ephemeral task; ended reports that it was the last.
func readRun(f frame, o bullpen.Observer) (res bullpen.Result, err error, ended bool) {
	if f.comment {
		return res, nil, false
	}
	switch f.kind {
	case "progress":
		var v wireProgress
		if json.Unmarshal(f.data, &v) == nil { // ignore a malformed one: the outcome does not depend on it
			o.Progress(v.Fraction, v.Note)
		}
	case "log":
		var v jsonvalue.Line
		if json.Unmarshal(f.data, &v) == nil { // as above
			o.Log(v.Line())
		}
	case "chunk":
		var v struct {
			Payload []byte `json:"payload_base64"`
		}
		to, ok := o.(bullpen.ChunkObserver)
		if err := json.Unmarshal(f.data, &v); err != nil || !ok {
			return res, &Error{Cause: causeAnswer, Detail: "a piece of the result cannot be read", Err: err}, true
		}
		to.Chunk(v.Payload)
	case "result":
		res, err = readRunResult(f.data)
		return res, err, true
	case "problem":
		var v struct {
			Status int `json:"status"`
		}
		if err := json.Unmarshal(f.data, &v); err != nil {
			return res, &Error{Cause: causeAnswer, Err: err}, true
		}
		return res, readProblem(v.Status, nil, f.data), true
	}
	return res, nil, false
}

func readRunResult(text []byte) (bullpen.Result, error) {
	var v struct {
		Payload []byte            `json:"payload_base64"`
		Meta    map[string]string `json:"meta"`
		Stats   struct {
			Waited     jsonvalue.Seconds `json:"waited"`
			Ran        jsonvalue.Seconds `json:"ran"`
			Worker     string            `json:"worker"`
			PeakMemory int64             `json:"peak_memory"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return bullpen.Result{}, &Error{Cause: causeAnswer, Detail: "the result cannot be read", Err: err}
	}
	return bullpen.Result{Payload: v.Payload, Meta: v.Meta, Stats: bullpen.Stats{
		Waited: time.Duration(v.Stats.Waited), Ran: time.Duration(v.Stats.Ran), Worker: v.Stats.Worker, PeakMemory: v.Stats.PeakMemory,
	}}, nil
}

// withdraw asks the daemon to cancel the task. It returns false if the daemon does
// not know the task, which may not have arrived yet.
func (e *ephemeral) withdraw(ctx context.Context, r *run) bool {
	_, err := e.client.once(ctx, call{method: http.MethodDelete, path: "/v1/run/" + escape(r.id)})
	return err == nil
}

// ephemeralGrace is how long a task of RunEphemeral may take to end after it is
// canceled.
const ephemeralGrace = 10 * time.Second

// run runs a task and cancels it when ctx ends. It retries a task that certainly did
// not start, up to the client's Retries times.
func (e *ephemeral) run(ctx context.Context, r *run) (bullpen.Result, error) {
	r.ctx, r.parent, r.trace = ctx, parentOf(ctx), taskOf(ctx).trace
	unwatch := context.AfterFunc(ctx, func() { r.withdraw(context.Cause(ctx)) })
	defer unwatch()
	for n := 0; ; n++ {
		res, err := e.client.attempt(ctx, e, r, ephemeralGrace)
		no := refused(err)
		if no == nil {
			return res, err
		}
		if n >= e.client.config.Retries || !no.repeatable(false) || e.client.pause(ctx, nil, n, no) != nil {
			return res, r.never(err)
		}
	}
}
