package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// GroupLimits bound the jobs of one group of a pool. The zero value is no limit.
type GroupLimits struct {
	// Concurrency is how many jobs of the group run at the same time; 0 is no limit.
	Concurrency int `json:"concurrency"`
	// Rate is how many begin in a second, on average; 0 is no limit. Burst is how
	// many may begin at once after a pause; 0 is Rate, at least 1.
	Rate  float64 `json:"rate"`
	Burst int     `json:"burst"`
}

// Group is what the daemon tells of a group of a pool's jobs.
type Group struct {
	Group string `json:"group"`
	// Waiting jobs can start when they have their turn and the limits allow it;
	// Running ones are in the hands of this daemon.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// Oldest is when the first of its jobs that wait was stored.
	Oldest time.Time `json:"oldest"`
	// Limits hold for it; Own says that they were set for it.
	Limits GroupLimits `json:"limits"`
	Own    bool        `json:"own"`
}

// Groups is what the daemon tells of the groups of a pool.
type Groups struct {
	// Limits hold for the groups that have none of their own.
	Limits GroupLimits `json:"limits"`
	// Groups are those that have jobs waiting or running, or limits of their own.
	Groups []Group `json:"groups"`
	// More says that there are more than the daemon tells.
	More bool `json:"more"`
	// Raw is all that the daemon said, in JSON.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON reads groups as the daemon gives them.
func (g *Groups) UnmarshalJSON(text []byte) error {
	type plain Groups
	if err := json.Unmarshal(text, (*plain)(g)); err != nil {
		return fmt.Errorf("the daemon's answer is no list of groups: %w", err)
	}
	g.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// Groups returns the groups of a pool, by name.
func (c *Client) Groups(ctx context.Context, pool string) (Groups, error) {
	var g Groups
	err := c.getJSON(ctx, poolPath(pool, "/groups"), "", &g)
	return g, err
}

// SetGroup sets the limits of a group of a pool, on all nodes and at once; with an
// empty group those of all groups that have none of their own. They stay until
// they are set anew or reset.
func (c *Client) SetGroup(ctx context.Context, pool, group string, l GroupLimits) (Groups, error) {
	return c.changeGroup(ctx, http.MethodPut, pool, group, l)
}

// ResetGroup takes back what SetGroup has set: from then on the configuration
// holds. None set is no error.
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
