package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Enqueue stores a job and returns once the daemon has confirmed that it is durable.
// After an error that wraps [job.ErrUnconfirmed] the job may or may not be enqueued;
// after any other error it is not. A job with a Key is sent again after a broken
// connection; see [Config.Retries] and [Config.Keys].
func (c *Client) Enqueue(ctx context.Context, j job.Job) (job.Ref, error) {
	if err := checkSubmitted(&j); err != nil {
		return job.Ref{}, err
	}
	a, err := c.do(ctx, c.submission(ctx, &j, 0))
	if err != nil {
		return job.Ref{}, enqueueError(err)
	}
	var ref job.Ref
	if err := a.json(&ref); err != nil {
		return job.Ref{}, &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	return ref, nil
}

// Run stores a job and waits for its end. If ctx ends, Run stops waiting but the job
// continues; if Ref has the job's id by then, [Client.Wait] can wait for it. A job
// that did not end well yields an [*job.EndError].
func (c *Client) Run(ctx context.Context, j job.Job) (job.Ref, bullpen.Result, error) {
	if err := checkSubmitted(&j); err != nil {
		return job.Ref{}, bullpen.Result{}, err
	}
	a, err := c.do(ctx, c.submission(ctx, &j, c.config.Wait))
	var ref job.Ref
	var end *job.EndError
	var no *Error
	switch {
	case errors.As(err, &end):
		ref.ID, ref.State = end.ID, endState(end)
		return ref, bullpen.Result{}, err
	case errors.As(err, &no):
		ref.ID = no.Job
		return ref, bullpen.Result{}, enqueueError(err)
	case err != nil:
		return ref, bullpen.Result{}, err
	case a.status != http.StatusAccepted:
		ref.ID, ref.State = first(a.header, "Bullpen-Job"), job.Done
		return ref, a.result(), nil
	}
	if err := a.json(&ref); err != nil {
		return ref, bullpen.Result{}, &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	of := taskOf(ctx)
	res, err := c.wait(ctx, ref.ID, c.submitHeader(nil, of.id, false, of.trace))
	if err == nil {
		ref.State = job.Done
	} else if errors.As(err, &end) {
		ref.State = endState(end)
	}
	return ref, res, err
}

var errThen = &Error{Cause: causeBadRequest, Detail: "the job has jobs in Then: enqueue it by EnqueueChain or EnqueueAll, and wait by WaitChain"}

// endState returns the state of a job that ended in this way.
func endState(e *job.EndError) job.State {
	if e.Reason == job.TakenBack {
		return job.Canceled
	}
	return job.Dead
}

func (a *answer) result() bullpen.Result {
	return bullpen.Result{Payload: a.body, Meta: readMeta(a.header), Stats: readStats(a.header)}
}

// submission returns the request that enqueues j and waits for wait; 0 does not wait.
func (c *Client) submission(ctx context.Context, j *job.Job, wait time.Duration) call {
	if j.Key == "" && c.config.Keys {
		j.Key = rand.Text()
	}
	of := taskOf(ctx)
	return call{
		method: http.MethodPost, path: poolPath(poolOf(j), "/jobs"), query: jobQuery(j, wait), body: newSource(j.Payload),
		header: c.submitHeader(j.Meta, of.id, false, of.trace), wait: wait, again: j.Key != "",
	}
}

// checkSubmitted refuses what the submission of one job has no field for.
func checkSubmitted(j *job.Job) error {
	if len(j.Then) > 0 {
		return errThen
	}
	return checkRetry(j)
}

// submitHeader returns the header of a submission, or nil if the template's is
// enough. own leaves out Bullpen's own metadata. trace is used if meta names no
// trace.
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

// enqueueError wraps err in ErrUnconfirmed if the job may have been enqueued despite
// it.
func enqueueError(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Cause == causeAnswer && e.Status/100 == 5 || e.Cause == "internal") {
		return fmt.Errorf("%w: %w", job.ErrUnconfirmed, err)
	}
	return err
}

type parentKey struct{}

// task is what a context holds about the task whose handler makes the call.
type task struct {
	id    string
	trace map[string]string // trace metadata of the task; nil for none
}

// WithParent returns a context for calls that a handler makes while it runs t. Jobs
// and tasks submitted with it have t as their parent. A task that waits for a job in
// its own pool then cannot deadlock: the pool starts an extra worker for that time,
// or the call fails with [ErrNested]. The jobs also join t's trace, unless their Meta
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
