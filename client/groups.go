package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// GroupLimits limits the jobs of one group of a pool. The zero value sets no limits.
type GroupLimits struct {
	// Concurrency is the maximum number of jobs of the group that run at the same
	// time; 0 is no limit.
	Concurrency int `json:"concurrency"`
	// Rate is the maximum number of jobs that start per second, on average; 0 is no
	// limit. Burst is how many may start at once after a pause; 0 is Rate, at least
	// 1.
	Rate  float64 `json:"rate"`
	Burst int     `json:"burst"`
}

// Group describes a group of a pool's jobs.
type Group struct {
	Group string `json:"group"`
	// Waiting is the number of jobs that can start when it is the group's turn and
	// the limits allow it; Running is the number of jobs that this daemon has in
	// hand.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// Oldest is when the oldest waiting job was stored.
	Oldest time.Time `json:"oldest"`
	// Limits are the limits in force. Own reports that they were set for this group.
	Limits GroupLimits `json:"limits"`
	Own    bool        `json:"own"`
}

// Groups describes the groups of a pool.
type Groups struct {
	// Limits apply to groups without limits of their own.
	Limits GroupLimits `json:"limits"`
	// Groups lists the groups with waiting or running jobs, or with limits of their
	// own.
	Groups []Group `json:"groups"`
	// More reports that the daemon left out further groups.
	More bool `json:"more"`
	// Raw is the daemon's complete answer, in JSON.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes groups from the daemon's JSON.
func (g *Groups) UnmarshalJSON(text []byte) error {
	type plain Groups
	if err := json.Unmarshal(text, (*plain)(g)); err != nil {
		return fmt.Errorf("the daemon's answer is no list of groups: %w", err)
	}
	g.Raw = append(json.RawMessage(nil), text...)
	return nil
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
func (c *Client) SetGroup(ctx context.Context, pool, group string, l GroupLimits) (Groups, error) {
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
