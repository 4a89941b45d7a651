package api

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/job"
)

// Schedule is a schedule in the API's JSON. Every is in seconds; the times in
// Upcoming are in the schedule's zone.
type Schedule struct {
	Name      string       `json:"name"`
	Pool      string       `json:"pool,omitempty"`
	Cron      string       `json:"cron,omitempty"`
	Every     float64      `json:"every,omitempty"`
	Zone      string       `json:"zone,omitempty"`
	Missed    string       `json:"missed"`
	Overlap   string       `json:"overlap"`
	Paused    bool         `json:"paused,omitempty"`
	Origin    string       `json:"origin,omitempty"`
	Job       *ScheduleJob `json:"job,omitempty"`
	Next      string       `json:"next,omitempty"`
	Upcoming  []string     `json:"upcoming,omitempty"`
	Last      string       `json:"last,omitempty"`
	LastJob   string       `json:"last_job,omitempty"`
	LastState string       `json:"last_state,omitempty"`
	Fired     uint64       `json:"fired"`
	Skipped   uint64       `json:"skipped"`
	// Error is why the last tick failed to enqueue its job.
	Error string `json:"error,omitempty"`
}

// ScheduleJob is the job of a schedule, in the form of a line of a bulk. Durations
// are in seconds. The list of schedules leaves the payload out.
type ScheduleJob struct {
	Payload       string            `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Task          string            `json:"task,omitempty"`
	Priority      string            `json:"priority,omitempty"`
	Timeout       float64           `json:"timeout,omitempty"`
	Memory        int64             `json:"memory,omitempty"`
	CPU           float64           `json:"cpu,omitempty"`
	Output        int               `json:"output,omitempty"`
	Attempts      int               `json:"attempts,omitempty"`
	Backoff       float64           `json:"backoff,omitempty"`
	MaxBackoff    float64           `json:"max_backoff,omitempty"`
	Crashes       int               `json:"crashes,omitempty"`
	Idempotent    bool              `json:"idempotent,omitempty"`
	Compensate    string            `json:"compensate,omitempty"`
	Bury          string            `json:"bury,omitempty"`
	Group         string            `json:"group,omitempty"`
}

// Schedules is the answer of /v1/schedules.
type Schedules struct {
	Schedules []Schedule `json:"schedules"`
}

func scheduleOf(i *job.ScheduleInfo) Schedule {
	s := Schedule{
		Name: i.Name, Pool: i.Job.Queue, Cron: i.Cron, Every: i.Every.Seconds(), Zone: i.Zone,
		Missed: i.Missed.String(), Overlap: i.Overlap.String(), Paused: i.Paused, Origin: i.Origin,
		Next: stamp(i.Next), Last: stamp(i.Last), LastJob: i.LastJob, LastState: i.LastState,
		Fired: i.Fired, Skipped: i.Skipped, Error: i.Err,
	}
	for _, t := range i.Upcoming {
		if i.Every != 0 {
			t = t.UTC()
		}
		s.Upcoming = append(s.Upcoming, t.Format(time.RFC3339Nano))
	}
	if i.Job.Queue == "" {
		return s // the record is damaged
	}
	j := &i.Job
	s.Job = &ScheduleJob{
		Meta: j.Meta, Task: j.Name, Timeout: j.Limits.Timeout.Seconds(), Memory: j.Limits.Memory, CPU: j.Limits.CPU, Output: j.Limits.Output,
		Attempts: j.Retry.Attempts, Backoff: j.Retry.Backoff.Seconds(), MaxBackoff: j.Retry.MaxBackoff.Seconds(), Crashes: j.Retry.Crashes,
		Idempotent: j.Idempotent, Compensate: j.Compensate, Bury: j.Bury, Group: j.Group,
	}
	if j.Priority != job.Normal {
		s.Job.Priority = j.Priority.String()
	}
	if utf8.Valid(j.Payload) {
		s.Job.Payload = string(j.Payload)
	} else {
		s.Job.PayloadBase64 = base64.StdEncoding.EncodeToString(j.Payload)
	}
	return s
}
