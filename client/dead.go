package client

import (
	"context"
	"iter"
	"net/http"
)

func deadPath(id, verb string) string { return "/v1/dead/" + escape(id) + verb }

// ListDead returns a page of the jobs that failed for good. Those in quarantine
// have the Reason [Quarantined].
func (c *Client) ListDead(ctx context.Context, f Filter) (Page, error) {
	var p Page
	err := c.getJSON(ctx, "/v1/dead", f.query(true), &p)
	return p, err
}

// Dead yields all dead jobs that f selects, and reads one page after the other. An
// error ends it.
func (c *Client) Dead(ctx context.Context, f Filter) iter.Seq2[Info, error] {
	return pages(f, func(f Filter) (Page, error) { return c.ListDead(ctx, f) })
}

// GetDead returns a dead job with its payload and evidence: the last lines of
// standard error are in Failure.Detail, signal, exit code and memory in History.
func (c *Client) GetDead(ctx context.Context, id string) (*Info, error) {
	i := new(Info)
	if err := c.getJSON(ctx, deadPath(id, ""), "", i); err != nil {
		return nil, err
	}
	return i, nil
}

// RetryDead enqueues a dead job again, as a new job with attempts of its own.
func (c *Client) RetryDead(ctx context.Context, id string) (Ref, error) {
	var ref Ref
	err := c.callJSON(ctx, call{method: http.MethodPost, path: deadPath(id, "/retry")}, nil, &ref)
	return ref, enqueueError(err)
}

// RemoveDead forgets a dead job.
func (c *Client) RemoveDead(ctx context.Context, id string) error {
	return c.callJSON(ctx, call{method: http.MethodDelete, path: deadPath(id, "")}, nil, nil)
}

// RetryDeadAll enqueues again the dead jobs that f selects; a selection is needed,
// or f.All.
func (c *Client) RetryDeadAll(ctx context.Context, f Filter) (Swept, error) {
	return c.sweep(ctx, "/v1/dead/retry", f)
}

// RemoveDeadAll forgets the dead jobs that f selects; a selection is needed, or
// f.All.
func (c *Client) RemoveDeadAll(ctx context.Context, f Filter) (Swept, error) {
	return c.sweep(ctx, "/v1/dead/remove", f)
}

func (c *Client) sweep(ctx context.Context, path string, f Filter) (Swept, error) {
	body := struct {
		Pool    string `json:"pool,omitempty"`
		Task    string `json:"task,omitempty"`
		Reason  Reason `json:"reason,omitempty"`
		Outcome string `json:"outcome,omitempty"`
		Limit   int    `json:"limit,omitempty"`
		All     bool   `json:"all,omitempty"`
	}{f.Pool, f.Task, f.Reason, f.Outcome, f.Limit, f.All}
	var s Swept
	err := c.callJSON(ctx, call{method: http.MethodPost, path: path}, body, &s)
	return s, err
}
