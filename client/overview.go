package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Overview is what all pools of a daemon look like at one time.
type Overview struct {
	Now   time.Time `json:"now"`
	Pools []PoolNow `json:"pools"`
	// Totals has the sums over all pools, and durations of all together.
	Totals PoolNow `json:"totals"`
	// Scheduled is how many jobs of all pools wait for their time.
	Scheduled int `json:"scheduled"`
	// Raw is all that the daemon said, in JSON.
	Raw json.RawMessage `json:"-"`
}

// PoolNow is what one pool looks like.
type PoolNow struct {
	Name string `json:"name"`
	// State and Error are as in [Pool].
	State  string `json:"state"`
	Paused bool   `json:"paused"`
	Error  string `json:"error"`
	// Waiting jobs could start, Taken ones are in the hands of nodes, Running tasks
	// in those of the workers of this one, Dead ones have failed for good.
	Waiting int `json:"waiting"`
	Taken   int `json:"taken"`
	Dead    int `json:"dead"`
	Running int `json:"running"`
	// Oldest is when the job that has been here longest was stored.
	Oldest  time.Time `json:"oldest"`
	Workers int       `json:"workers"`
	Max     int       `json:"max"`
	// Rate is how many tasks end a second, Errors how many of them badly.
	Rate   float64 `json:"rate"`
	Errors float64 `json:"errors"`
	// How long jobs waited and ran that ended lately.
	WaitP50 time.Duration `json:"-"`
	WaitP99 time.Duration `json:"-"`
	RunP50  time.Duration `json:"-"`
	RunP99  time.Duration `json:"-"`
}

// UnmarshalJSON reads what the daemon gives.
func (p *PoolNow) UnmarshalJSON(text []byte) error {
	type plain PoolNow
	wire := struct {
		*plain
		WaitP50 seconds `json:"wait_p50"`
		WaitP99 seconds `json:"wait_p99"`
		RunP50  seconds `json:"run_p50"`
		RunP99  seconds `json:"run_p99"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is no overview: %w", err)
	}
	p.WaitP50, p.WaitP99 = wire.WaitP50.duration(), wire.WaitP99.duration()
	p.RunP50, p.RunP99 = wire.RunP50.duration(), wire.RunP99.duration()
	return nil
}

// Overview tells what all pools look like now. It costs the daemon about as much as
// [Client.Pool] does for each pool, but no more than once a second.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	err := c.getJSON(ctx, "/v1/overview", "", &o)
	return o, err
}

// UnmarshalJSON reads an overview as the daemon gives it.
func (o *Overview) UnmarshalJSON(text []byte) error {
	type plain Overview
	if err := json.Unmarshal(text, (*plain)(o)); err != nil {
		return fmt.Errorf("the daemon's answer is no overview: %w", err)
	}
	o.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// Worker is what a daemon tells of one of its workers.
type Worker struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	// State is starting, idle, busy or leaving.
	State string `json:"state"`
	// Tasks counts those that it has ended, InHand those that it has, of at most
	// Window.
	Tasks  int `json:"tasks"`
	InHand int `json:"in_hand"`
	Window int `json:"window"`
	// Age is for how long it has been there, Idle for how long it has had no task.
	Age  time.Duration `json:"-"`
	Idle time.Duration `json:"-"`
	// Memory is in bytes, 0 where it is not known.
	Memory int64 `json:"memory"`
	// Task is the id of what it has had for longest, TaskName its kind, TaskAge for
	// how long.
	Task     string        `json:"task"`
	TaskName string        `json:"task_name"`
	TaskAge  time.Duration `json:"-"`
	// Recycling says that it is being replaced.
	Recycling bool `json:"recycling"`
}

// UnmarshalJSON reads a worker as the daemon gives it.
func (w *Worker) UnmarshalJSON(text []byte) error {
	type plain Worker
	wire := struct {
		*plain
		Age     seconds `json:"age"`
		Idle    seconds `json:"idle"`
		TaskAge seconds `json:"task_age"`
	}{plain: (*plain)(w)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is no worker: %w", err)
	}
	w.Age, w.Idle, w.TaskAge = wire.Age.duration(), wire.Idle.duration(), wire.TaskAge.duration()
	return nil
}

// Workers tells of the workers of a pool at this daemon, of all pools for an empty
// name.
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

// Recycle replaces a worker, once what it has in hand has ended: its successor is
// ready before. It does not wait for that.
func (c *Client) Recycle(ctx context.Context, pool, worker string) error {
	path := "/v1/workers/" + escape(worker) + "/recycle"
	return c.callJSON(ctx, call{method: http.MethodPost, path: path, query: "pool=" + url.QueryEscape(pool)}, nil, nil)
}
