package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// Overview is a snapshot of all pools of a daemon.
type Overview struct {
	Now   time.Time `json:"now"`
	Pools []PoolNow `json:"pools"`
	// Totals has the sums over all pools, and the durations of all their jobs
	// together.
	Totals PoolNow `json:"totals"`
	// Scheduled is the number of jobs, in all pools, that wait for their start time.
	Scheduled int `json:"scheduled"`
	// Raw is the daemon's complete answer, in JSON.
	Raw json.RawMessage `json:"-"`
}

// PoolNow is a snapshot of one pool.
type PoolNow struct {
	Name string `json:"name"`
	// State and Error are as in [Pool].
	State  string `json:"state"`
	Paused bool   `json:"paused"`
	Error  string `json:"error"`
	// Waiting is the number of jobs that could start, Taken of jobs that nodes have
	// in hand, Dead of dead jobs, and Running of tasks that the workers of this node
	// run.
	Waiting int `json:"waiting"`
	Taken   int `json:"taken"`
	Dead    int `json:"dead"`
	Running int `json:"running"`
	// Oldest is when the oldest job in the queue was stored.
	Oldest  time.Time `json:"oldest"`
	Workers int       `json:"workers"`
	Max     int       `json:"max"`
	// Rate is the number of tasks that end per second, and Errors the number of those
	// that fail.
	Rate   float64 `json:"rate"`
	Errors float64 `json:"errors"`
	// Medians and 99th percentiles of how long recently ended jobs waited and ran.
	WaitP50 time.Duration `json:"-"`
	WaitP99 time.Duration `json:"-"`
	RunP50  time.Duration `json:"-"`
	RunP99  time.Duration `json:"-"`
}

// UnmarshalJSON decodes a pool's snapshot from the daemon's JSON.
func (p *PoolNow) UnmarshalJSON(text []byte) error {
	type plain PoolNow
	wire := struct {
		*plain
		WaitP50 jsonvalue.Seconds `json:"wait_p50"`
		WaitP99 jsonvalue.Seconds `json:"wait_p99"`
		RunP50  jsonvalue.Seconds `json:"run_p50"`
		RunP99  jsonvalue.Seconds `json:"run_p99"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is not an overview: %w", err)
	}
	p.WaitP50, p.WaitP99 = time.Duration(wire.WaitP50), time.Duration(wire.WaitP99)
	p.RunP50, p.RunP99 = time.Duration(wire.RunP50), time.Duration(wire.RunP99)
	return nil
}

// Overview returns a snapshot of all pools. It costs the daemon about as much as one
// [Client.Pool] for each pool, but the daemon computes it at most once a second.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	err := c.getJSON(ctx, "/v1/overview", "", &o)
	return o, err
}

// UnmarshalJSON decodes an overview from the daemon's JSON.
func (o *Overview) UnmarshalJSON(text []byte) error {
	type plain Overview
	if err := json.Unmarshal(text, (*plain)(o)); err != nil {
		return fmt.Errorf("the daemon's answer is not an overview: %w", err)
	}
	o.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// Worker describes a worker.
type Worker struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	// State is starting, idle, busy or leaving.
	State string `json:"state"`
	// Tasks is the number of tasks that the worker has ended, and InHand the number
	// that it has now, of at most Window.
	Tasks  int `json:"tasks"`
	InHand int `json:"in_hand"`
	Window int `json:"window"`
	// Age is how long the worker has existed, and Idle how long it has had no task.
	Age  time.Duration `json:"-"`
	Idle time.Duration `json:"-"`
	// Memory is in bytes; 0 if not known.
	Memory int64 `json:"memory"`
	// Task is the id of the task that the worker has had longest, TaskName its name,
	// and TaskAge for how long.
	Task     string        `json:"task"`
	TaskName string        `json:"task_name"`
	TaskAge  time.Duration `json:"-"`
	// Recycling reports that the worker is being replaced.
	Recycling bool `json:"recycling"`
}

// UnmarshalJSON decodes a worker from the daemon's JSON.
func (w *Worker) UnmarshalJSON(text []byte) error {
	type plain Worker
	wire := struct {
		*plain
		Age     jsonvalue.Seconds `json:"age"`
		Idle    jsonvalue.Seconds `json:"idle"`
		TaskAge jsonvalue.Seconds `json:"task_age"`
	}{plain: (*plain)(w)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is not a worker: %w", err)
	}
	w.Age, w.Idle, w.TaskAge = time.Duration(wire.Age), time.Duration(wire.Idle), time.Duration(wire.TaskAge)
	return nil
}

// Workers returns the workers of a pool at this daemon, or of all pools if pool is
// empty.
func (c *Client) Workers(ctx context.Context, pool string) ([]Worker, error) {
	query := ""
	if pool != "" {
		query = "pool=" + url.QueryEscape(pool)
	}
	var all struct {
		Workers []Worker `json:"workers"`
	}
	err := c.getJSON(ctx, "/v1/workers", query, &all)
	return all.Workers, err
}

// Recycle replaces a worker: it starts a successor, and ends the worker when its
// tasks in hand have ended. Recycle does not wait for that.
func (c *Client) Recycle(ctx context.Context, pool, worker string) error {
	path := "/v1/workers/" + escape(worker) + "/recycle"
	return c.callJSON(ctx, call{method: http.MethodPost, path: path, query: "pool=" + url.QueryEscape(pool)}, nil, nil)
}
