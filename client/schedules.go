package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/bullpen-run/bullpen/job"
)

func schedulePath(name, verb string) string { return "/v1/schedules/" + url.PathEscape(name) + verb }

// Schedules returns all schedules, sorted by name.
func (c *Client) Schedules(ctx context.Context) ([]job.ScheduleInfo, error) {
	var all struct {
		Schedules []job.ScheduleInfo `json:"schedules"`
	}
	err := c.getJSON(ctx, "/v1/schedules", "", &all)
	return all.Schedules, err
}

// Schedule describes one schedule. The error is job.ErrNotFound if no schedule has that
// name.
func (c *Client) Schedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	var i job.ScheduleInfo
	err := c.getJSON(ctx, schedulePath(name, ""), "", &i)
	return i, err
}

// PutSchedule creates a schedule, or replaces the one of that name. If the rule is
// unchanged, the schedule continues where it was. The error is ErrManaged if the
// schedule is one of the configuration.
func (c *Client) PutSchedule(ctx context.Context, s job.Schedule) (job.ScheduleInfo, error) {
	if j := &s.Job; j.Key != "" || j.Delay != 0 || !j.At.IsZero() || !j.Deadline.IsZero() {
		return job.ScheduleInfo{}, fmt.Errorf("schedule %q: its Job has a Key, Delay, At or Deadline: leave them out, a schedule enqueues many jobs", s.Name)
	}
	if err := checkRetry(&s.Job); err != nil {
		return job.ScheduleInfo{}, err
	}
	s.Job.Queue = poolOf(&s.Job)
	return c.scheduleDo(ctx, http.MethodPut, s.Name, "", s)
}

// RemoveSchedule removes a schedule. Jobs that it enqueued stay.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: schedulePath(name, "")})
	return err
}

// PauseSchedule pauses a schedule; ticks during the pause do not count as missed.
func (c *Client) PauseSchedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	return c.scheduleDo(ctx, http.MethodPost, name, "/pause", nil)
}

// ResumeSchedule resumes a schedule, with its next tick.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	return c.scheduleDo(ctx, http.MethodPost, name, "/resume", nil)
}

func (c *Client) scheduleDo(ctx context.Context, method, name, verb string, body any) (job.ScheduleInfo, error) {
	var i job.ScheduleInfo
	err := c.callJSON(ctx, call{method: method, path: schedulePath(name, verb), again: true}, body, &i)
	return i, err
}

// RunSchedule enqueues a job of a schedule now, without affecting its ticks. The
// error is job.ErrOverlap if the schedule forbids overlaps and its last job has not
// ended.
func (c *Client) RunSchedule(ctx context.Context, name string) (job.Ref, error) {
	var ref job.Ref
	err := c.callJSON(ctx, call{method: http.MethodPost, path: schedulePath(name, "/run")}, nil, &ref)
	return ref, err
}
