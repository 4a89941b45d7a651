package client

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// durable is the way of tasks that become jobs: each is enqueued under a key of its
// own, and waited for by its id. So every step can be done again when a connection
// breaks.
type durable struct {
	ids

	client *Client
	pool   string
	job    Job
}

func (c *Client) newDurable(pool string, job Job) *durable {
	return &durable{ids: newIDs(), client: c, pool: pool, job: job}
}

// jobOf is the job that a task becomes.
func (d *durable) jobOf(r *run) Job {
	j := d.job
	j.Task, j.Payload, j.Meta, j.Limits, j.Key = r.task.Name, r.task.Payload, r.task.Meta, r.task.Limits, r.id
	j.Parent = r.parent
	j.Deadline, _ = r.ctx.Deadline()
	return j
}

// try enqueues the task and waits for its end.
func (d *durable) try(ctx context.Context, r *run, sent *sending) (bullpen.Result, error) {
	// From here on the job may be there, so taking it back means asking the daemon.
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
	go func() { // ends with the job's story, at the latest soon after the job; it is waited for here
		defer close(over)
		d.observe(watched, r.task.Observer, *r.job.Load())
	}()
	res, err := d.await(ctx, r)
	timer := time.AfterFunc(lateStory, leave)
	defer timer.Stop()
	<-over
	return res, err
}

// lateStory is how long after the end of a job its story is waited for.
const lateStory = 5 * time.Second

// submission enqueues the job, or finds it by its key, and waits.
func (d *durable) submission(ctx context.Context, r *run, wait time.Duration) call {
	j := d.jobOf(r)
	c := d.client.submission(ctx, d.pool, &j)
	c.header = d.client.submitHeader(r.task.Meta, r.parent, true, r.trace)
	c.query, c.wait = j.query(wait), wait
	return c
}

// learn enqueues the job, or finds it by its key, and keeps its id.
func (d *durable) learn(ctx context.Context, r *run) error {
	a, err := d.client.do(ctx, d.submission(ctx, r, 0))
	if err != nil {
		return err
	}
	var ref Ref
	if err := a.json(&ref); err != nil || ref.ID == "" {
		return &Error{Status: a.status, Cause: causeUnconfirmed, Err: err}
	}
	r.job.Store(&ref.ID)
	return nil
}

// await waits for the end of a job, however long the daemon is away. It enqueues
// the job if that has not been done.
func (d *durable) await(ctx context.Context, r *run) (bullpen.Result, error) {
	wait := d.client.config.Wait
	for n := 0; ; n++ {
		id := r.job.Load()
		var c call
		if id == nil || r.parent != "" {
			c = d.submission(ctx, r, wait) // a pool helps those only whose parent waits in this way
		} else {
			var q query
			q.duration("wait", wait)
			c = call{method: http.MethodGet, path: jobPath(*id, "/result"), query: q.String(), wait: wait, again: true}
		}
		a, err := d.client.do(ctx, c)
		var no *Error
		switch {
		case err == nil && a.status != http.StatusAccepted:
			return a.result(), nil
		case err == nil:
			n = -1
			var ref Ref
			if a.json(&ref) == nil && ref.ID != "" { // otherwise it is asked by the key again
				r.job.Store(&ref.ID)
			}
			continue
		case id == nil || !errors.As(err, &no):
			return bullpen.Result{}, err
		case !no.repeatable(true) || d.client.pause(ctx, nil, min(n, 6), no) != nil:
			return bullpen.Result{}, &Error{Cause: causeUnconfirmed, Job: *id, Err: err} // it was enqueued, so it may have run
		}
	}
}

// observe tells the observer what the job says, until it has ended. What cannot be
// told any more is worth no outcome.
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

// withdraw cancels the job. While its id is not known it is asked for by the key.
func (d *durable) withdraw(ctx context.Context, r *run) bool {
	if r.job.Load() == nil && d.learn(ctx, r) != nil {
		return false
	}
	_, err := d.client.once(ctx, call{method: http.MethodPost, path: jobPath(*r.job.Load(), "/cancel"), body: newSource(nil)})
	return err == nil || errors.Is(err, ErrEnded)
}

// jobID is where a durable task keeps the id of its job, once that is known.
type jobID = atomic.Pointer[string]
