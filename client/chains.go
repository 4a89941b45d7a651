package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// EnqueueChain stores jobs that run one after the other. Each gets the result of the
// job before it as its payload, and the chain stops at the first job that does not
// end well. A job without a Queue of its own goes to that of the job before it. Only the
// first job may have a Payload and a Key. The ref is that of the first job; Info.Next of
// an ended job is the id of the job that follows it. Errors are as from Enqueue.
func (c *Client) EnqueueChain(ctx context.Context, jobs ...job.Job) (job.Ref, error) {
	body := struct {
		Jobs []json.RawMessage `json:"jobs"`
	}{make([]json.RawMessage, len(jobs))}
	r := call{method: http.MethodPost, path: "/v1/chains"}
	for i, j := range jobs {
		if i == 0 {
			j.Queue, r.again = poolOf(&j), j.Key != ""
		}
		var err error
		if body.Jobs[i], err = encodeJob(&j); err != nil {
			return job.Ref{}, err
		}
	}
	var ref job.Ref
	err := c.callJSON(ctx, r, &body, &ref)
	return ref, enqueueError(err)
}

// WaitChain waits for the end of the chain that contains the job id, starting at that
// job, and returns the result of the chain's last job. If a job does not end well, it
// returns that job's [*job.EndError].
func (c *Client) WaitChain(ctx context.Context, id string) (bullpen.Result, error) {
	for {
		r, err := c.Wait(ctx, id)
		if err != nil {
			return r, err
		}
		info, err := c.Get(ctx, id)
		if err != nil || info.Next == "" {
			return r, err
		}
		if err := c.untilThere(ctx, info.Next); err != nil {
			return bullpen.Result{}, err
		}
		id = info.Next
	}
}
