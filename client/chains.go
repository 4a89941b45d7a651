package client

import (
	"context"
	"net/http"

	"github.com/bullpen-run/bullpen"
)

// EnqueueChain stores jobs that run one after the other. Each gets the result of the
// job before it as its payload, and the chain stops at the first job that does not
// end well. The first job goes to pool, and so do jobs without a Pool of their own.
// Only the first job may have a Payload and a Key. The ref is that of the first job;
// Info.Next of an ended job is the id of the job that follows it. Errors are as from
// Enqueue.
func (c *Client) EnqueueChain(ctx context.Context, pool string, jobs ...Job) (Ref, error) {
	wire := make([]wireJob, len(jobs))
	for i := range jobs {
		var err error
		if wire[i], err = wireOf(&jobs[i]); err != nil {
			return Ref{}, err
		}
	}
	r := call{method: http.MethodPost, path: "/v1/chains"}
	if len(wire) > 0 {
		wire[0].Pool = pool
		r.again = wire[0].Key != ""
	}
	var ref Ref
	err := c.callJSON(ctx, r, map[string]any{"jobs": wire}, &ref)
	return ref, enqueueError(err)
}

// WaitChain waits for the end of the chain that contains the job id, starting at that
// job, and returns the result of the chain's last job. If a job does not end well, it
// returns that job's [*EndError].
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
