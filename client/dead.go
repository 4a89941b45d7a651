package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

func deadPath(id, verb string) string { return "/v1/dead/" + escape(id) + verb }

// ListDead returns a page of the dead jobs that f selects, of whatever f.States. Those in
// quarantine have the Reason [job.Quarantined].
func (c *Client) ListDead(ctx context.Context, f job.Filter) (job.Page, error) {
	var p job.Page
	f.States = nil
	err := c.getJSON(ctx, "/v1/dead", filterQuery(&f), &p)
	return p, err
}

// Dead yields all dead jobs that f selects, reading page after page. It stops after
// an error.
func (c *Client) Dead(ctx context.Context, f job.Filter) iter.Seq2[job.Info, error] {
	return pages(f, func(f job.Filter) (job.Page, error) { return c.ListDead(ctx, f) })
}

// GetDead returns a dead job with its payload and evidence: the Task of its
// [job.EndError] has the last lines of standard error, and History the signal, exit code and memory.
func (c *Client) GetDead(ctx context.Context, id string) (*job.Info, error) {
	i := new(job.Info)
	if err := c.getJSON(ctx, deadPath(id, ""), "", i); err != nil {
		return nil, err
	}
	return i, nil
}

// RetryDead enqueues a dead job again, as a new job with a fresh count of attempts.
func (c *Client) RetryDead(ctx context.Context, id string) (job.Ref, error) {
	var ref job.Ref
	err := c.callJSON(ctx, call{method: http.MethodPost, path: deadPath(id, "/retry")}, nil, &ref)
	return ref, enqueueError(err)
}

// RemoveDead deletes a dead job.
func (c *Client) RemoveDead(ctx context.Context, id string) error {
	return c.callJSON(ctx, call{method: http.MethodDelete, path: deadPath(id, "")}, nil, nil)
}

// RetryDeadAll enqueues again the dead jobs that f selects, of whatever f.States. The zero
// filter selects all dead jobs.
func (c *Client) RetryDeadAll(ctx context.Context, f job.Filter) (job.Bulk, error) {
	f.States = nil
	return c.sweep(ctx, "/v1/dead/retry", f)
}

// RemoveDeadAll deletes the dead jobs that f selects, of whatever f.States. The zero
// filter selects all dead jobs.
func (c *Client) RemoveDeadAll(ctx context.Context, f job.Filter) (job.Bulk, error) {
	f.States = nil
	return c.sweep(ctx, "/v1/dead/remove", f)
}

// DeadCauses groups the dead jobs that f selects by cause, the most frequent cause
// first. The daemon examines the most recent jobs, for at most a tenth of a second.
func (c *Client) DeadCauses(ctx context.Context, f job.Filter) (job.Causes, error) {
	f.States, f.Cause, f.Newest, f.Limit, f.After = nil, "", false, 0, ""
	var all job.Causes
	err := c.getJSON(ctx, "/v1/dead/causes", filterQuery(&f), &all)
	return all, err
}

// CancelAll cancels the jobs that f selects and that have not ended. The zero filter
// selects all of these.
func (c *Client) CancelAll(ctx context.Context, f job.Filter) (job.Bulk, error) {
	return c.sweep(ctx, "/v1/jobs/cancel", f)
}

// CancelIDs cancels up to a thousand jobs.
func (c *Client) CancelIDs(ctx context.Context, ids ...string) (job.Bulk, error) {
	return c.sweepIDs(ctx, "/v1/jobs/cancel", ids)
}

// RetryIDs enqueues up to a thousand ended jobs again, each as Retry does.
func (c *Client) RetryIDs(ctx context.Context, ids ...string) (job.Bulk, error) {
	return c.sweepIDs(ctx, "/v1/jobs/retry", ids)
}

func (c *Client) sweepIDs(ctx context.Context, path string, ids []string) (job.Bulk, error) {
	var s job.Bulk
	if len(ids) == 0 {
		return s, nil
	}
	err := c.callJSON(ctx, call{method: http.MethodPost, path: path}, map[string][]string{"ids": ids}, &s)
	return s, err
}

func (c *Client) sweep(ctx context.Context, path string, f job.Filter) (job.Bulk, error) {
	body := struct {
		Pool     string     `json:"pool,omitempty"`
		Task     string     `json:"task,omitempty"`
		Group    string     `json:"group,omitempty"`
		Schedule string     `json:"schedule,omitempty"`
		Batch    string     `json:"batch,omitempty"`
		State    string     `json:"state,omitempty"`
		Reason   job.Reason `json:"reason,omitempty"`
		Outcome  string     `json:"outcome,omitempty"`
		Cause    string     `json:"cause,omitempty"`
		Search   string     `json:"search,omitempty"`
		Since    *time.Time `json:"since,omitempty"`
		Before   *time.Time `json:"before,omitempty"`
		Order    string     `json:"order,omitempty"`
		Limit    int        `json:"limit,omitempty"`
		After    string     `json:"after,omitempty"`
		All      bool       `json:"all,omitempty"`
	}{
		Pool: f.Queue, Task: f.Name, Group: f.Group, Schedule: f.Schedule, Batch: f.Batch, State: words(f.States), Reason: f.Reason, Outcome: f.Outcome, Cause: f.Cause, Search: f.Search,
		Since: moment(f.Since), Before: moment(f.Before), Limit: f.Limit, After: f.After, All: f.All(),
	}
	if f.Newest {
		body.Order = "newest"
	}
	var s job.Bulk
	err := c.callJSON(ctx, call{method: http.MethodPost, path: path}, body, &s)
	return s, err
}

// moment converts a time for JSON; nil if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
