package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// Pool describes a pool.
type Pool struct {
	Name string `json:"name"`
	// State is open, draining, stopping, closing or closed; queue-only means that the
	// pool has no workers at this daemon.
	State  string `json:"state"`
	Paused bool   `json:"paused"`
	// Protocol and Program are the workers' protocol and program.
	Protocol string `json:"protocol"`
	Program  string `json:"program"`
	// Task is the default task, for jobs that name none.
	Task string `json:"task"`
	// Ephemeral reports that the pool accepts tasks that bypass the queue.
	Ephemeral bool `json:"ephemeral"`
	// Min and Max bound the number of workers; Helpers are extra workers for nested
	// tasks.
	Min     int         `json:"min"`
	Max     int         `json:"max"`
	Helpers int         `json:"helpers"`
	Workers PoolWorkers `json:"workers"`
	// Queued is the number of tasks that wait in the pool, Blocked of callers that
	// wait for a place in it, and InHand of jobs of the durable queue that it has in
	// hand.
	Queued  int         `json:"queued"`
	Blocked int         `json:"blocked"`
	InHand  int         `json:"in_hand"`
	Jobs    []PoolDepth `json:"jobs"`
	// The counters start at 0 when the daemon starts.
	Accepted     uint64            `json:"accepted"`
	Outcomes     map[string]uint64 `json:"outcomes"`
	NeverStarted uint64            `json:"never_started"`
	Refused      uint64            `json:"refused"`
	Started      uint64            `json:"started"`
	Stopped      uint64            `json:"stopped"`
	Deaths       map[string]uint64 `json:"deaths"`
	FailedStarts uint64            `json:"failed_starts"`
	WaitP50      time.Duration     `json:"-"`
	WaitP99      time.Duration     `json:"-"`
	RunP50       time.Duration     `json:"-"`
	RunP99       time.Duration     `json:"-"`
	StartP50     time.Duration     `json:"-"`
	// Error is why workers fail to start; empty if they start.
	Error string `json:"error"`
	// Raw is the pool as the daemon returned it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// PoolWorkers counts the workers of a pool by state.
type PoolWorkers struct {
	Starting int `json:"starting"`
	Idle     int `json:"idle"`
	Busy     int `json:"busy"`
	Leaving  int `json:"leaving"`
}

// PoolDepth is the number of queued jobs of one priority in a pool.
type PoolDepth struct {
	Priority job.Priority `json:"priority"`
	// Waiting is the number of jobs that can start, and Taken of those that nodes
	// have in hand.
	Waiting int `json:"waiting"`
	Taken   int `json:"taken"`
	// Oldest is when the oldest job in the queue was stored.
	Oldest time.Time `json:"oldest"`
}

// UnmarshalJSON decodes a pool from the daemon's JSON.
func (p *Pool) UnmarshalJSON(text []byte) error {
	type plain Pool
	wire := struct {
		*plain
		WaitP50  jsonvalue.Seconds `json:"wait_p50"`
		WaitP99  jsonvalue.Seconds `json:"wait_p99"`
		RunP50   jsonvalue.Seconds `json:"run_p50"`
		RunP99   jsonvalue.Seconds `json:"run_p99"`
		StartP50 jsonvalue.Seconds `json:"start_p50"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is not a pool: %w", err)
	}
	p.WaitP50, p.WaitP99 = time.Duration(wire.WaitP50), time.Duration(wire.WaitP99)
	p.RunP50, p.RunP99 = time.Duration(wire.RunP50), time.Duration(wire.RunP99)
	p.StartP50 = time.Duration(wire.StartP50)
	p.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// Scale changes the bounds of a pool; nil leaves a bound as it is.
type Scale struct {
	Min *int `json:"min,omitempty"`
	Max *int `json:"max,omitempty"`
}

// Pools returns the pools of the daemon.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	var all struct {
		Pools []Pool `json:"pools"`
	}
	err := c.getJSON(ctx, "/v1/pools", "", &all)
	return all.Pools, err
}

// Pool describes one pool.
func (c *Client) Pool(ctx context.Context, name string) (Pool, error) {
	var p Pool
	err := c.getJSON(ctx, poolPath(name, ""), "", &p)
	return p, err
}

// Scale changes the bounds of a pool, until the daemon reloads its configuration.
func (c *Client) Scale(ctx context.Context, pool string, s Scale) (Pool, error) {
	return c.poolDo(ctx, pool, "/scale", s, false)
}

// Pause stops starting jobs of a pool on all nodes, durably. Running jobs continue.
func (c *Client) Pause(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/pause", nil, false)
}

// Resume starts jobs of a pool again.
func (c *Client) Resume(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/resume", nil, false)
}

// ReloadPool replaces all workers of a pool, starting the new ones first, and returns
// when that is done. It takes as long as the workers take; bound it with ctx.
func (c *Client) ReloadPool(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/reload", nil, true)
}

func (c *Client) poolDo(ctx context.Context, pool, verb string, body any, long bool) (Pool, error) {
	var p Pool
	err := c.callJSON(ctx, call{method: http.MethodPost, path: poolPath(pool, verb), long: long, again: !long}, body, &p)
	return p, err
}

// Status describes the daemon.
type Status struct {
	Version  string        `json:"version"`
	Node     string        `json:"node"`
	Uptime   time.Duration `json:"-"`
	Ready    bool          `json:"ready"`
	Live     bool          `json:"live"`
	Stopping bool          `json:"stopping"`
	// Store describes where jobs are kept.
	Store StoreStatus `json:"store"`
	// LogLinesDropped is the number of lines dropped because the daemon's log was too
	// slow.
	LogLinesDropped uint64 `json:"log_lines_dropped"`
	// Raw is the daemon's complete answer, in JSON.
	Raw json.RawMessage `json:"-"`
}

// StoreStatus describes the daemon's store.
type StoreStatus struct {
	// Kind is "memory", "embedded" or "server".
	Kind string `json:"kind"`
	// Durability is what a confirmed job survives.
	Durability string `json:"durability"`
	Replicas   int    `json:"replicas"`
}

// UnmarshalJSON decodes a status from the daemon's JSON.
func (s *Status) UnmarshalJSON(text []byte) error {
	type plain Status
	wire := struct {
		*plain
		Uptime jsonvalue.Seconds `json:"uptime"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is not a status: %w", err)
	}
	s.Uptime, s.Raw = time.Duration(wire.Uptime), append(json.RawMessage(nil), text...)
	return nil
}

// Status returns the status of the daemon.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.getJSON(ctx, "/v1/status", "", &s)
	return s, err
}

// Backup makes the daemon copy all jobs and outcomes to a folder on its own machine,
// while it continues to work. dir is an absolute path and must not exist yet. If the
// daemon cannot make the backup the error is bullpen.ErrRefused.
func (c *Client) Backup(ctx context.Context, dir string) error {
	body := map[string]string{"dir": dir}
	return c.callJSON(ctx, call{method: http.MethodPost, path: "/v1/backup", long: true}, body, nil)
}

// Reload makes the daemon read its configuration again and returns what has changed.
// A configuration with faults changes nothing: the error is an [*Error] with
// ErrBadConfig and all Faults.
func (c *Client) Reload(ctx context.Context) (changed []string, err error) {
	var answer struct {
		Changed []string `json:"changed"`
	}
	err = c.callJSON(ctx, call{method: http.MethodPost, path: "/v1/reload", long: true}, nil, &answer)
	return answer.Changed, err
}
