package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// MissedTicks selects what happens to ticks that passed while no node was running.
type MissedTicks string

// The rules for missed ticks. Empty is MissedOnce.
const (
	// MissedOnce fires the latest missed tick at once, and skips the others.
	MissedOnce MissedTicks = "once"
	// MissedSkip skips all missed ticks.
	MissedSkip MissedTicks = "skip"
	// MissedAll fires all missed ticks, oldest first, but at most the last 1000.
	MissedAll MissedTicks = "all"
)

// Overlap selects what happens to a tick while the schedule's last job has not ended.
type Overlap string

// The rules for overlaps. Empty is OverlapAllow.
const (
	// OverlapAllow enqueues another job.
	OverlapAllow Overlap = "allow"
	// OverlapForbid skips the tick.
	OverlapForbid Overlap = "forbid"
)

// Schedule is a rule that enqueues a job at each of its ticks, once, however many
// daemons run. Name, Pool and either Cron or Every are required.
type Schedule struct {
	// Name has up to 128 lower-case letters, digits, "-", "_" and ".".
	Name string
	// Pool is the pool of the jobs.
	Pool string
	// Cron has five fields, or is @daily and the like; see docs/schedules.md. Every
	// is the time between ticks, at least 100 ms.
	Cron  string
	Every time.Duration
	// Zone is the time zone of Cron, such as "Europe/Berlin"; empty is UTC.
	Zone    string
	Missed  MissedTicks
	Overlap Overlap
	// Paused stops the ticks; ticks during a pause do not count as missed.
	Paused bool
	// Job is the job to enqueue. It must not have a Key, Delay, At or Deadline.
	Job Job
}

// ScheduleInfo describes a schedule. In a list, its job has no payload.
type ScheduleInfo struct {
	Schedule
	// Origin is "config" for a schedule of the daemon's configuration, which can only
	// be changed there.
	Origin string
	// Next is the next tick, zero while the schedule is paused. Last is the last tick
	// that fired or was skipped.
	Next, Last time.Time
	// Upcoming lists the next three ticks, in Zone; empty in a list.
	Upcoming []time.Time
	// LastJob is the id of the job that was enqueued last, and LastState its state;
	// empty if nothing is known of it any longer.
	LastJob   string
	LastState State
	// Fired is the number of ticks that enqueued a job, and Skipped of those that did
	// not.
	Fired, Skipped uint64
	// Err is why the last tick failed to enqueue its job.
	Err string
	// Raw is the daemon's complete answer, in JSON.
	Raw json.RawMessage
}

// wireSchedule is a schedule in the API's JSON.
type wireSchedule struct {
	Name      string           `json:"name,omitempty"`
	Pool      string           `json:"pool,omitempty"`
	Cron      string           `json:"cron,omitempty"`
	Every     seconds          `json:"every,omitempty"`
	Zone      string           `json:"zone,omitempty"`
	Missed    MissedTicks      `json:"missed,omitempty"`
	Overlap   Overlap          `json:"overlap,omitempty"`
	Paused    bool             `json:"paused,omitempty"`
	Job       *wireScheduleJob `json:"job,omitempty"`
	Origin    string           `json:"origin,omitempty"`
	Next      time.Time        `json:"next,omitzero"`
	Upcoming  []time.Time      `json:"upcoming,omitempty"`
	Last      time.Time        `json:"last,omitzero"`
	LastJob   string           `json:"last_job,omitempty"`
	LastState State            `json:"last_state,omitempty"`
	Fired     uint64           `json:"fired,omitempty"`
	Skipped   uint64           `json:"skipped,omitempty"`
	Err       string           `json:"error,omitempty"`
}

// wireScheduleJob is the job of a schedule in the API's JSON.
type wireScheduleJob struct {
	Payload       string            `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Task          string            `json:"task,omitempty"`
	Priority      Priority          `json:"priority,omitempty"`
	Timeout       seconds           `json:"timeout,omitempty"`
	Memory        int64             `json:"memory,omitempty"`
	CPU           float64           `json:"cpu,omitempty"`
	Output        int               `json:"output,omitempty"`
	Attempts      int               `json:"attempts,omitempty"`
	Backoff       seconds           `json:"backoff,omitempty"`
	MaxBackoff    seconds           `json:"max_backoff,omitempty"`
	Crashes       int               `json:"crashes,omitempty"`
	Idempotent    bool              `json:"idempotent,omitempty"`
	Compensate    string            `json:"compensate,omitempty"`
	Bury          string            `json:"bury,omitempty"`
	Group         string            `json:"group,omitempty"`
}

// UnmarshalJSON decodes a schedule from the daemon's JSON.
func (i *ScheduleInfo) UnmarshalJSON(text []byte) error {
	var w wireSchedule
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("the daemon's answer is no schedule: %w", err)
	}
	*i = ScheduleInfo{
		Schedule: Schedule{
			Name: w.Name, Pool: w.Pool, Cron: w.Cron, Every: w.Every.duration(), Zone: w.Zone, Missed: w.Missed, Overlap: w.Overlap, Paused: w.Paused,
		},
		Origin: w.Origin, Next: w.Next, Upcoming: w.Upcoming, Last: w.Last, LastJob: w.LastJob, LastState: w.LastState,
		Fired: w.Fired, Skipped: w.Skipped, Err: w.Err, Raw: append(json.RawMessage(nil), text...),
	}
	if w.Job == nil {
		return nil
	}
	var err error
	i.Job, err = w.Job.job()
	return err
}

func (w *wireScheduleJob) job() (Job, error) {
	j := Job{
		Task: w.Task, Payload: []byte(w.Payload), Meta: w.Meta, Priority: w.Priority, Idempotent: w.Idempotent,
		Compensate: w.Compensate, Bury: w.Bury, Group: w.Group,
	}
	j.Limits.Timeout, j.Limits.Memory, j.Limits.CPU, j.Limits.Output = w.Timeout.duration(), w.Memory, w.CPU, w.Output
	j.Attempts, j.Crashes = w.Attempts, w.Crashes
	j.Backoff, j.MaxBackoff = w.Backoff.duration(), w.MaxBackoff.duration()
	if w.PayloadBase64 == "" {
		return j, nil
	}
	b, err := base64.StdEncoding.DecodeString(w.PayloadBase64)
	if err != nil {
		return j, fmt.Errorf("the daemon's answer has a payload that is not base64: %w", err)
	}
	j.Payload = b
	return j, nil
}

func wireJobOf(j *Job) *wireScheduleJob {
	return &wireScheduleJob{
		PayloadBase64: base64.StdEncoding.EncodeToString(j.Payload), Meta: j.Meta, Task: j.Task, Priority: j.Priority,
		Timeout: seconds(j.Limits.Timeout.Seconds()), Memory: j.Limits.Memory, CPU: j.Limits.CPU, Output: j.Limits.Output,
		Attempts: j.Attempts, Backoff: seconds(j.Backoff.Seconds()), MaxBackoff: seconds(j.MaxBackoff.Seconds()),
		Crashes: j.Crashes, Idempotent: j.Idempotent, Compensate: j.Compensate, Bury: j.Bury, Group: j.Group,
	}
}

func schedulePath(name, verb string) string { return "/v1/schedules/" + url.PathEscape(name) + verb }

// Schedules returns all schedules, sorted by name.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	var all struct {
		Schedules []ScheduleInfo `json:"schedules"`
	}
	err := c.getJSON(ctx, "/v1/schedules", "", &all)
	return all.Schedules, err
}

// Schedule describes one schedule. The error is ErrNotFound if no schedule has that
// name.
func (c *Client) Schedule(ctx context.Context, name string) (ScheduleInfo, error) {
	var i ScheduleInfo
	err := c.getJSON(ctx, schedulePath(name, ""), "", &i)
	return i, err
}

// PutSchedule creates a schedule, or replaces the one of that name. If the rule is
// unchanged, the schedule continues where it was. The error is ErrManaged if the
// schedule is one of the configuration.
func (c *Client) PutSchedule(ctx context.Context, s Schedule) (ScheduleInfo, error) {
	if j := &s.Job; j.Key != "" || j.Delay != 0 || !j.At.IsZero() || !j.Deadline.IsZero() {
		return ScheduleInfo{}, fmt.Errorf("schedule %q: its Job has a Key, Delay, At or Deadline: leave them out, a schedule enqueues many jobs", s.Name)
	}
	body := wireSchedule{
		Pool: s.Pool, Cron: s.Cron, Every: seconds(s.Every.Seconds()), Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap, Paused: s.Paused,
		Job: wireJobOf(&s.Job),
	}
	return c.scheduleDo(ctx, http.MethodPut, s.Name, "", body)
}

// RemoveSchedule removes a schedule. Jobs that it enqueued stay.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: schedulePath(name, "")})
	return err
}

// PauseSchedule pauses a schedule; ticks during the pause do not count as missed.
func (c *Client) PauseSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.scheduleDo(ctx, http.MethodPost, name, "/pause", nil)
}

// ResumeSchedule resumes a schedule, with its next tick.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	return c.scheduleDo(ctx, http.MethodPost, name, "/resume", nil)
}

func (c *Client) scheduleDo(ctx context.Context, method, name, verb string, body any) (ScheduleInfo, error) {
	var i ScheduleInfo
	err := c.callJSON(ctx, call{method: method, path: schedulePath(name, verb), again: true}, body, &i)
	return i, err
}

// RunSchedule enqueues a job of a schedule now, without affecting its ticks. The
// error is ErrOverlap if the schedule forbids overlaps and its last job has not
// ended.
func (c *Client) RunSchedule(ctx context.Context, name string) (Ref, error) {
	var ref Ref
	err := c.callJSON(ctx, call{method: http.MethodPost, path: schedulePath(name, "/run")}, nil, &ref)
	return ref, err
}
