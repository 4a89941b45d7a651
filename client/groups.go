package client

import (
	"context"
	"net/http"

	"github.com/bullpen-run/bullpen/job"
)

// Groups describes the groups of a pool.
type Groups struct {
	// Limits apply to groups without limits of their own.
	Limits job.GroupLimits `json:"limits"`
	// Groups lists the groups with waiting or running jobs, or with limits of their
	// own.
	Groups []job.GroupInfo `json:"groups"`
	// More reports that the daemon left out further groups.
	More bool `json:"more,omitempty"`
}

// Groups returns the groups of a pool, sorted by name.
func (c *Client) Groups(ctx context.Context, pool string) (Groups, error) {
	var g Groups
	err := c.getJSON(ctx, poolPath(pool, "/groups"), "", &g)
	return g, err
}

// SetGroup sets the limits of a group of a pool, on all nodes and immediately. An
// empty group sets the limits of all groups that have none of their own. The limits
// hold until they are set again or reset.
func (c *Client) SetGroup(ctx context.Context, pool, group string, l job.GroupLimits) (Groups, error) {
	return c.changeGroup(ctx, http.MethodPut, pool, group, l)
}

// ResetGroup removes the limits that SetGroup has set; the configuration's apply
// again. It is no error if none were set.
func (c *Client) ResetGroup(ctx context.Context, pool, group string) (Groups, error) {
	return c.changeGroup(ctx, http.MethodDelete, pool, group, nil)
}

func (c *Client) changeGroup(ctx context.Context, method, pool, group string, body any) (Groups, error) {
	var g Groups
	var q query
	q.text("group", group)
	err := c.callJSON(ctx, call{method: method, path: poolPath(pool, "/groups"), query: q.String(), again: true}, body, &g)
	return g, err
}
