package client

import (
	"context"
	"net/http"

	"github.com/bullpen-run/bullpen"
)

// EnqueueChain stores jobs that run one after the other, each with the result of
// the one before as its payload, while all end well. The first goes to pool, and so
// do the others, where their Pool says nothing. All but the first have neither
// Payload nor Key. The ref is that of the first job; Info.Next of a job that has
// ended names the one that follows. Errors are as from Enqueue.
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

// WaitChain waits for the end of the chain that the job id belongs to, from that
// job on, and returns the result of its last job. The first that did not end well
// gives an [*EndError].
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
