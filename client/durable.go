package client

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// durable runs tasks as jobs: it enqueues each under a unique key and waits for it by
// id. So every step can be repeated when a connection breaks.
type durable struct {
	ids

	client *Client
	job    job.Job
}

func (c *Client) newDurable(pool string, j job.Job) *durable {
	j.Queue = pool
	return &durable{ids: newIDs(), client: c, job: j}
}

// jobOf returns the job for a task.
func (d *durable) jobOf(r *run) job.Job {
	j := d.job
	j.Name, j.Payload, j.Meta, j.Limits, j.Key = r.task.Name, r.task.Payload, r.task.Meta, r.task.Limits, r.id
	j.Deadline, _ = r.ctx.Deadline()
	return j
}

// try enqueues the task and waits for its end.
func (d *durable) try(ctx context.Context, r *run, sent *sending) (bullpen.Result, error) {
	// From here on the job may exist, so canceling it takes a call to the daemon.
	sent.begun.Store(true)
	if r.task.Observer == nil {
		return d.await(ctx, r)
	}
	if err := d.learn(ctx, r); err != nil {
		return bullpen.Result{}, err
	}
	watched, leave := context.WithCancel(ctx)
	defer leave()
	over := make(chan struct{})
	go func() { // ends when the job's events end, or lateStory after the job; the caller waits for it
		defer close(over)
		d.observe(watched, r.task.Observer, *r.job.Load())
	}()
	res, err := d.await(ctx, r)
	timer := time.AfterFunc(lateStory, leave)
	defer timer.Stop()
	<-over
	return res, err
}

// lateStory is how long try waits for a job's remaining events after the job has
// ended.
const lateStory = 5 * time.Second

// submission returns the request that enqueues the job, or finds it by its key, and
// waits for its end.
func (d *durable) submission(ctx context.Context, r *run, wait time.Duration) call {
	j := d.jobOf(r)
	c := d.client.submission(ctx, &j, wait)
	c.header = d.client.submitHeader(r.task.Meta, r.parent, true, r.trace)
	return c
}

// learn enqueues the job, or finds it by its key, and keeps its id.
func (d *durable) learn(ctx context.Context, r *run) error {
	a, err := d.client.do(ctx, d.submission(ctx, r, 0))
	if err != nil {
		return err
	}
	var ref job.Ref
	if err := a.json(&ref); err != nil || ref.ID == "" {
		return &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	r.job.Store(&ref.ID)
	return nil
}

// await waits for the end of a job, however long the daemon is unreachable. It
// enqueues the job if that has not been done.
func (d *durable) await(ctx context.Context, r *run) (bullpen.Result, error) {
	wait := d.client.config.Wait
	for n := 0; ; n++ {
		id := r.job.Load()
		var c call
		if id == nil || r.parent != "" {
			c = d.submission(ctx, r, wait) // only this form of waiting tells the pool the parent, which may get it a helper worker
		} else {
			var q query
			q.wait(wait)
			c = call{method: http.MethodGet, path: jobPath(*id, "/result"), query: q.String(), wait: wait, again: true}
		}
		a, err := d.client.do(ctx, c)
		var no *Error
		switch {
		case err == nil && a.status != http.StatusAccepted:
			return a.result(), nil
		case err == nil:
			n = -1
			var ref job.Ref
			if a.json(&ref) == nil && ref.ID != "" { // otherwise the next request finds the job by its key
				r.job.Store(&ref.ID)
			}
			continue
		case id == nil || !errors.As(err, &no):
			return bullpen.Result{}, err
		case !no.repeatable(true) || d.client.pause(ctx, nil, min(n, 6), no) != nil:
			return bullpen.Result{}, &Error{Cause: causeUnconfirmed, Job: *id, Err: err} // the job was enqueued, so it may have run
		}
	}
}

// observe passes the job's events to the observer until the job has ended. If it
// cannot read them, it gives up: the job's outcome does not depend on them.
func (d *durable) observe(ctx context.Context, o bullpen.Observer, id string) {
	for event, err := range d.client.Follow(ctx, id, "") {
		if err != nil {
			return
		}
		switch event.Kind {
		case Progressed:
			o.Progress(event.Fraction, event.Note)
		case Logged:
			o.Log(event.Line)
		case StateChanged, Ended, Missed:
		}
	}
}

// withdraw cancels the job. If its id is not known, withdraw first looks it up by the
// key.
func (d *durable) withdraw(ctx context.Context, r *run) bool {
	if r.job.Load() == nil && d.learn(ctx, r) != nil {
		return false
	}
	_, err := d.client.once(ctx, call{method: http.MethodPost, path: jobPath(*r.job.Load(), "/cancel"), body: newSource(nil)})
	return err == nil || errors.Is(err, job.ErrEnded)
}

// jobID holds the id of a durable task's job, once known.
type jobID = atomic.Pointer[string]
