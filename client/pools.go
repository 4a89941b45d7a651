package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Pool is what the daemon tells of a pool.
type Pool struct {
	Name string `json:"name"`
	// State is open, draining, stopping, closing or closed; queue-only says that
	// the pool has no workers at this daemon.
	State  string `json:"state"`
	Paused bool   `json:"paused"`
	// Protocol and Program say how its workers are spoken to and what they are.
	Protocol string `json:"protocol"`
	Program  string `json:"program"`
	// Task is the kind of a job that names none.
	Task string `json:"task"`
	// Ephemeral says that the pool takes tasks that bypass the queue.
	Ephemeral bool `json:"ephemeral"`
	// Min and Max bound the workers; Helpers are there besides for nested work.
	Min     int         `json:"min"`
	Max     int         `json:"max"`
	Helpers int         `json:"helpers"`
	Workers PoolWorkers `json:"workers"`
	// Queued tasks wait in the pool, Blocked callers for a place in it; InHand
	// jobs of the durable queue are with it.
	Queued  int         `json:"queued"`
	Blocked int         `json:"blocked"`
	InHand  int         `json:"in_hand"`
	Jobs    []PoolDepth `json:"jobs"`
	// The counts are since the daemon has started.
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
	// Error says why workers do not start; empty where they do.
	Error string `json:"error"`
	// Raw is the pool as the daemon gave it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// PoolWorkers counts the workers of a pool by what they do.
type PoolWorkers struct {
	Starting int `json:"starting"`
	Idle     int `json:"idle"`
	Busy     int `json:"busy"`
	Leaving  int `json:"leaving"`
}

// PoolDepth is how many jobs of one priority a pool's queue has.
type PoolDepth struct {
	Priority Priority `json:"priority"`
	// Waiting jobs can start; Taken ones are in the hands of nodes.
	Waiting int `json:"waiting"`
	Taken   int `json:"taken"`
	// Oldest is when the job that has been here longest was stored.
	Oldest time.Time `json:"oldest"`
}

// UnmarshalJSON reads a pool as the daemon gives it.
func (p *Pool) UnmarshalJSON(text []byte) error {
	type plain Pool
	wire := struct {
		*plain
		WaitP50  seconds `json:"wait_p50"`
		WaitP99  seconds `json:"wait_p99"`
		RunP50   seconds `json:"run_p50"`
		RunP99   seconds `json:"run_p99"`
		StartP50 seconds `json:"start_p50"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is no pool: %w", err)
	}
	p.WaitP50, p.WaitP99 = wire.WaitP50.duration(), wire.WaitP99.duration()
	p.RunP50, p.RunP99 = wire.RunP50.duration(), wire.RunP99.duration()
	p.StartP50 = wire.StartP50.duration()
	p.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// Scale is the bounds of a pool that are to change; nil leaves one as it is.
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

// Scale changes the bounds of a pool, until the configuration is read again.
func (c *Client) Scale(ctx context.Context, pool string, s Scale) (Pool, error) {
	return c.poolDo(ctx, pool, "/scale", s, false)
}

// Pause stops handing out jobs of a pool on all nodes, durably. What runs goes on.
func (c *Client) Pause(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/pause", nil, false)
}

// Resume starts handing out jobs of a pool again.
func (c *Client) Resume(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/resume", nil, false)
}

// ReloadPool replaces all workers of a pool, the new ones ready first, and returns
// when that is done. It takes as long as the workers take; bound it by ctx.
func (c *Client) ReloadPool(ctx context.Context, pool string) (Pool, error) {
	return c.poolDo(ctx, pool, "/reload", nil, true)
}

func (c *Client) poolDo(ctx context.Context, pool, verb string, body any, long bool) (Pool, error) {
	var p Pool
	err := c.callJSON(ctx, call{method: http.MethodPost, path: poolPath(pool, verb), long: long, again: !long}, body, &p)
	return p, err
}

// Status is what the daemon tells of itself.
type Status struct {
	Version  string        `json:"version"`
	Node     string        `json:"node"`
	Uptime   time.Duration `json:"-"`
	Ready    bool          `json:"ready"`
	Live     bool          `json:"live"`
	Stopping bool          `json:"stopping"`
	// Store is where jobs are kept.
	Store StoreStatus `json:"store"`
	// LogLinesDropped counts lines that the daemon's log was too slow for.
	LogLinesDropped uint64 `json:"log_lines_dropped"`
	// Raw is all that the daemon said, in JSON.
	Raw json.RawMessage `json:"-"`
}

// StoreStatus is what the daemon tells of its store.
type StoreStatus struct {
	// Kind is "memory", "embedded" or "server".
	Kind string `json:"kind"`
	// Durability says what a confirmed job has survived.
	Durability string `json:"durability"`
	Replicas   int    `json:"replicas"`
}

// UnmarshalJSON reads a status as the daemon gives it.
func (s *Status) UnmarshalJSON(text []byte) error {
	type plain Status
	wire := struct {
		*plain
		Uptime seconds `json:"uptime"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is no status: %w", err)
	}
	s.Uptime, s.Raw = wire.Uptime.duration(), append(json.RawMessage(nil), text...)
	return nil
}

// Status asks the daemon how it does.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.getJSON(ctx, "/v1/status", "", &s)
	return s, err
}

// Backup has the daemon copy all jobs and outcomes to a folder on its own machine, while
// it works. dir is an absolute path, of a folder that is not there yet. What cannot be
// done is refused (bullpen.ErrRefused).
func (c *Client) Backup(ctx context.Context, dir string) error {
	body := map[string]string{"dir": dir}
	return c.callJSON(ctx, call{method: http.MethodPost, path: "/v1/backup", long: true}, body, nil)
}

// Reload lets the daemon read its configuration again and returns what has
// changed. A configuration with faults changes nothing: the error is an [*Error]
// with ErrBadConfig and all Faults.
func (c *Client) Reload(ctx context.Context) (changed []string, err error) {
	var answer struct {
		Changed []string `json:"changed"`
	}
	err = c.callJSON(ctx, call{method: http.MethodPost, path: "/v1/reload", long: true}, nil, &answer)
	return answer.Changed, err
}
