package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/bullpen-run/bullpen"
)

// Enqueue stores a job and returns when the daemon has confirmed that it is
// durable. An error that wraps [ErrUnconfirmed] says that the job may be there or
// not; any other says that it is not. A job with a Key is given again after a
// broken connection, see [Config.Retries] and [Config.Keys].
func (c *Client) Enqueue(ctx context.Context, pool string, j Job) (Ref, error) {
	if len(j.Then) > 0 {
		return Ref{}, errThen
	}
	r := c.submission(ctx, pool, &j)
	r.query = j.query(0)
	a, err := c.do(ctx, r)
	if err != nil {
		return Ref{}, enqueueError(err)
	}
	var ref Ref
	if err := a.json(&ref); err != nil {
		return Ref{}, &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	return ref, nil
}

// Run stores a job and waits for its end. The end of ctx ends the waiting, not the
// job, whose id is in Ref if it is known by then: [Client.Wait] goes on. A job that
// did not end well gives an [*EndError].
func (c *Client) Run(ctx context.Context, pool string, j Job) (Ref, bullpen.Result, error) {
	if len(j.Then) > 0 {
		return Ref{}, bullpen.Result{}, errThen
	}
	r := c.submission(ctx, pool, &j)
	r.query, r.wait = j.query(c.config.Wait), c.config.Wait
	a, err := c.do(ctx, r)
	ref := Ref{Pool: pool}
	var end *EndError
	var no *Error
	switch {
	case errors.As(err, &end):
		ref.ID, ref.State = end.ID, end.state()
		return ref, bullpen.Result{}, err
	case errors.As(err, &no):
		ref.ID = no.Job
		return ref, bullpen.Result{}, enqueueError(err)
	case err != nil:
		return ref, bullpen.Result{}, err
	case a.status != http.StatusAccepted:
		ref.ID, ref.State = first(a.header, "Bullpen-Job"), Done
		return ref, a.result(), nil
	}
	if err := a.json(&ref); err != nil {
		return ref, bullpen.Result{}, &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	res, err := c.wait(ctx, ref.ID, c.submitHeader(nil, j.Parent, false, taskOf(ctx).trace))
	if err == nil {
		ref.State = Done
	} else if errors.As(err, &end) {
		ref.State = end.state()
	}
	return ref, res, err
}

var errThen = &Error{Cause: "bad-request", Detail: "the job has jobs in Then: enqueue it by EnqueueChain or EnqueueAll, and wait by WaitChain"}

// state is where the end leaves the job.
func (e *EndError) state() State {
	if e.Reason == TakenBack {
		return Canceled
	}
	return Dead
}

func (a *answer) result() bullpen.Result {
	return bullpen.Result{Payload: a.body, Stats: readStats(a.header)}
}

// submission is the request that enqueues j.
func (c *Client) submission(ctx context.Context, pool string, j *Job) call {
	if j.Key == "" && c.config.Keys {
		j.Key = rand.Text()
	}
	if j.Parent == "" {
		j.Parent = parentOf(ctx)
	}
	r := call{method: http.MethodPost, path: poolPath(pool, "/jobs"), body: newSource(j.Payload), again: j.Key != ""}
	r.header = c.submitHeader(j.Meta, j.Parent, false, taskOf(ctx).trace)
	return r
}

// submitHeader is nil where the template's says all. own leaves out the metadata
// that is Bullpen's. trace is for metadata that names none.
func (c *Client) submitHeader(meta map[string]string, parent string, own bool, trace map[string]string) http.Header {
	text := encodeMeta(meta, own)
	if _, given := meta["traceparent"]; given {
		trace = meta
	}
	inTrace := traced(trace)
	if text == "" && parent == "" && !inTrace {
		return nil
	}
	header := c.header()
	if text != "" {
		header["Bullpen-Meta"] = []string{text}
	}
	if parent != "" {
		header["Bullpen-Parent"] = []string{parent}
	}
	for key, name := range traceHeaders {
		if value := trace[key]; inTrace && value != "" {
			header[name] = []string{value}
		}
	}
	return header
}

// enqueueError says of an answer without sense that the job may be there.
func enqueueError(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Cause == causeAnswer && e.Status/100 == 5 || e.Cause == "internal") {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	return err
}

type parentKey struct{}

// task is what a context knows of the task whose handler makes calls.
type task struct {
	id    string
	trace map[string]string // its metadata that says in which trace it runs; nil for none
}

// WithParent returns a context for calls that a handler makes while it runs t: the
// jobs and tasks that it submits, and waits for, say that they are t's. So a task
// that waits for its own pool cannot hang it: the pool gets a worker more for the
// time, or the answer is [ErrNested]. And they are in its trace, unless their Meta
// names another.
func WithParent(ctx context.Context, t bullpen.Task) context.Context {
	parent := task{id: t.ID}
	if traced(t.Meta) {
		parent.trace = map[string]string{"traceparent": t.Meta["traceparent"], "tracestate": t.Meta["tracestate"]}
	}
	return context.WithValue(ctx, parentKey{}, parent)
}

func taskOf(ctx context.Context) task {
	t, _ := ctx.Value(parentKey{}).(task)
	return t
}

func parentOf(ctx context.Context) string { return taskOf(ctx).id }
