package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Wait waits for the end of a job, without a time limit of its own, and returns the
// job's result. A job that did not end well yields an [*job.EndError]. If ctx ends, Wait
// returns but the job continues.
func (c *Client) Wait(ctx context.Context, id string) (bullpen.Result, error) {
	return c.wait(ctx, id, nil)
}

// wait is Wait with the header of a submission, which names the parent.
func (c *Client) wait(ctx context.Context, id string, header http.Header) (bullpen.Result, error) {
	r := call{method: http.MethodGet, path: jobPath(id, "/result"), header: header, wait: c.config.Wait, again: true}
	var q query
	q.wait(r.wait)
	r.query = q.String()
	for {
		a, err := c.do(ctx, r)
		switch {
		case err != nil:
			return bullpen.Result{}, err
		case a.status != http.StatusAccepted:
			return a.result(), nil
		case ctx.Err() != nil:
			return bullpen.Result{}, context.Cause(ctx)
		}
	}
}

// Result returns the result of a job that has ended. It returns [job.ErrNotEnded] if the
// job has not ended, and an [*job.EndError] if it did not end well.
func (c *Client) Result(ctx context.Context, id string) (bullpen.Result, error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: jobPath(id, "/result"), again: true})
	switch {
	case err != nil:
		return bullpen.Result{}, err
	case a.status == http.StatusAccepted:
		return bullpen.Result{}, &Error{Status: a.status, Cause: causeNotEnded, Job: id, Detail: "wait for it"}
	default:
		return a.result(), nil
	}
}

// Get returns the current state of a job.
func (c *Client) Get(ctx context.Context, id string) (*job.Info, error) {
	i := new(job.Info)
	if err := c.getJSON(ctx, jobPath(id, ""), "", i); err != nil {
		return nil, err
	}
	return i, nil
}

// Payload returns the input of a job, or [job.ErrPayloadGone] if it is no longer kept.
func (c *Client) Payload(ctx context.Context, id string) ([]byte, error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: jobPath(id, "/payload"), again: true})
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// List returns a page of jobs, without payloads, lines and history.
func (c *Client) List(ctx context.Context, f job.Filter) (job.Page, error) {
	var p job.Page
	err := c.getJSON(ctx, "/v1/jobs", filterQuery(&f), &p)
	return p, err
}

// Jobs yields all jobs that f selects, reading page after page. It stops after an
// error.
func (c *Client) Jobs(ctx context.Context, f job.Filter) iter.Seq2[job.Info, error] {
	return pages(f, func(f job.Filter) (job.Page, error) { return c.List(ctx, f) })
}

// pages yields the jobs of page after page.
func pages(f job.Filter, list func(job.Filter) (job.Page, error)) iter.Seq2[job.Info, error] {
	return func(yield func(job.Info, error) bool) {
		for {
			p, err := list(f)
			if err == nil && p.Next != "" && p.Next == f.After {
				err = &Error{Cause: causeAnswer, Detail: "the page after " + p.Next + " is the same again"}
			}
			if err != nil {
				yield(job.Info{}, err)
				return
			}
			for i := range p.Jobs {
				if !yield(p.Jobs[i], nil) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			f.After = p.Next
		}
	}
}

// Cancel cancels a job, waiting or running, and returns it. It returns [job.ErrEnded] if
// the job has ended.
func (c *Client) Cancel(ctx context.Context, id string) (*job.Info, error) {
	i := new(job.Info)
	err := c.callJSON(ctx, call{method: http.MethodPost, path: jobPath(id, "/cancel")}, nil, i)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// Retry enqueues an ended job again, as a new job with a fresh count of attempts. It
// returns [job.ErrNotEnded] if the job has not ended, and [job.ErrPayloadGone] if its payload
// is no longer kept.
func (c *Client) Retry(ctx context.Context, id string) (job.Ref, error) {
	var ref job.Ref
	err := c.callJSON(ctx, call{method: http.MethodPost, path: jobPath(id, "/retry")}, nil, &ref)
	return ref, enqueueError(err)
}

// RunEphemeral runs a task on a pool's workers, bypassing the durable queue, and
// waits for its end. The pool must allow it. Errors are as from an executor: a
// [*bullpen.TaskError] means that the task started, any other error that it never
// did. When ctx ends the task is canceled. To run many such tasks use
// [Client.Executor], which bounds how many are in flight.
func (c *Client) RunEphemeral(ctx context.Context, pool string, t bullpen.Task) (bullpen.Result, error) {
	if ctx.Err() != nil {
		return bullpen.Result{}, context.Cause(ctx)
	}
	if err := t.Limits.Check(); err != nil {
		return bullpen.Result{}, fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
	}
	e := c.newEphemeral(pool)
	return e.run(ctx, newRun(e.id(t.ID), &t))
}
