package api

import (
	"encoding/base64"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// Job is a job in the API's JSON. Durations are in seconds, times as in RFC 3339.
// Unknown values are left out.
type Job struct {
	ID         string            `json:"id"`
	Pool       string            `json:"pool,omitempty"`
	Task       string            `json:"task,omitempty"`
	State      string            `json:"state"`
	Key        string            `json:"key,omitempty"`
	Group      string            `json:"group,omitempty"`
	Priority   string            `json:"priority,omitempty"`
	Enqueued   string            `json:"enqueued,omitempty"`
	At         string            `json:"at,omitempty"`
	Deadline   string            `json:"deadline,omitempty"`
	Attempts   int               `json:"attempts"`
	Crashes    int               `json:"crashes,omitempty"`
	Node       string            `json:"node,omitempty"`
	Worker     string            `json:"worker,omitempty"`
	Progress   float64           `json:"progress,omitempty"`
	Note       string            `json:"note,omitempty"`
	Ended      string            `json:"ended,omitempty"`
	Outcome    string            `json:"outcome,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Error      string            `json:"error,omitempty"`
	PayloadLen int               `json:"payload_size,omitempty"`
	ResultLen  int               `json:"result_size,omitempty"`
	Waited     float64           `json:"waited,omitempty"`
	Ran        float64           `json:"ran,omitempty"`
	PeakMemory int64             `json:"peak_memory,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Compensate string            `json:"compensate,omitempty"`
	Bury       string            `json:"bury,omitempty"`
	Schedule   string            `json:"schedule,omitempty"`
	Tick       string            `json:"tick,omitempty"`
	Chain      string            `json:"chain,omitempty"`
	Link       int               `json:"link,omitempty"`
	Links      int               `json:"links,omitempty"`
	Next       string            `json:"next,omitempty"`
	Batch      string            `json:"batch,omitempty"`
	Index      *int              `json:"index,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	History    []Attempt         `json:"history,omitempty"`
	Lines      []Line            `json:"lines,omitempty"`
	Failure    *problem.Failure  `json:"failure,omitempty"`
	// Payload is set for dead jobs only, as evidence.
	Payload string `json:"payload_base64,omitempty"`
}

// Attempt is one attempt of a job.
type Attempt struct {
	Number     int     `json:"number"`
	Outcome    string  `json:"outcome"`
	Ended      string  `json:"ended,omitempty"`
	Ran        float64 `json:"ran,omitempty"`
	Node       string  `json:"node,omitempty"`
	Worker     string  `json:"worker,omitempty"`
	Error      string  `json:"error,omitempty"`
	Signal     string  `json:"signal,omitempty"`
	ExitCode   *int    `json:"exit_code,omitempty"`
	PeakMemory int64   `json:"peak_memory,omitempty"`
}

// Line is one line that a task logged or printed.
type Line struct {
	Time   string `json:"time,omitempty"`
	Level  int    `json:"level"`
	Stream string `json:"stream,omitempty"`
	Text   string `json:"text"`
}

// Page is a page of a list of jobs.
type Page struct {
	Jobs []Job `json:"jobs"`
	// Next is the "after" of the next page; left out on the last page.
	Next string `json:"next,omitempty"`
}

// brief converts a job for a list.
func brief(i *job.Info) Job {
	j := Job{
		ID: i.ID, Pool: i.Queue, Task: i.Name, State: i.State.String(), Key: i.Key, Group: i.Group,
		Enqueued: stamp(i.Enqueued), At: stamp(i.At), Deadline: stamp(i.Deadline),
		Attempts: i.Attempts, Crashes: i.Crashes, Node: i.Node, Worker: i.Worker, Progress: i.Progress, Note: i.Note,
		PayloadLen: i.PayloadSize, ResultLen: i.ResultSize,
		Waited: i.Stats.Waited.Seconds(), Ran: i.Stats.Ran.Seconds(), PeakMemory: i.Stats.PeakMemory,
		Parent: i.Parent, Compensate: i.Compensate, Bury: i.Bury, Meta: i.Meta, Reason: string(i.Reason),
		Schedule: i.Schedule, Tick: stamp(i.Tick),
	}
	if j.Chain, j.Link, j.Links, j.Next, j.Batch = i.Chain, i.Link, i.Links, i.Next, i.Batch; i.Batch != "" {
		index := i.Index
		j.Index = &index
	}
	if i.Queue != "" { // the priority of a damaged job is not known
		j.Priority = i.Priority.String()
	}
	if i.State.Ended() {
		j.Ended, j.Outcome = stamp(i.Ended), problem.Outcome(i.Outcome)
	}
	if errors.Is(i.Err, job.ErrNewer) && j.Reason == "" {
		j.Reason = string(job.Newer)
	}
	if i.Err != nil {
		j.Error = causeOf(i.Err)
	} else if n := len(i.History); n > 0 && i.State != job.Done {
		j.Error = i.History[n-1].Error
	}
	return j
}

// causeOf returns why a job ended badly, without its id, outcome and reason, which
// have fields of their own.
func causeOf(err error) string {
	var end *job.EndError
	if !errors.As(err, &end) {
		return err.Error()
	}
	if errors.Is(err, job.ErrNewer) {
		return end.Error()
	}
	if end.Task == nil {
		return end.Message
	}
	if f := problem.FailureOf(end.Task); f.Message != "" {
		return f.Message
	}
	plain := *end.Task
	plain.ID, plain.Task = "", ""
	return plain.Error()
}

// whole converts a job with all that is known, except its payload.
func whole(i *job.Info) Job {
	j := brief(i)
	for n := range i.History {
		j.History = append(j.History, attemptOf(&i.History[n]))
	}
	for n := range i.Lines {
		j.Lines = append(j.Lines, lineOf(i.Lines[n]))
	}
	var end *job.EndError
	if errors.As(i.Err, &end) {
		j.Failure = problem.FailureOf(end.Task)
	}
	return j
}

// evidence converts a dead job, with its payload.
func evidence(i *job.Info) Job {
	j := whole(i)
	j.Payload = base64.StdEncoding.EncodeToString(i.Payload)
	return j
}

func attemptOf(a *job.Attempt) Attempt {
	t := Attempt{
		Number: a.Number, Outcome: problem.Outcome(a.Outcome), Ended: stamp(a.Ended), Ran: a.Ran.Seconds(), Node: a.Node, Worker: a.Worker,
		Error: a.Error, Signal: a.Signal, PeakMemory: a.PeakMemory,
	}
	if a.ExitCode >= 0 && a.Outcome != bullpen.OK {
		code := a.ExitCode
		t.ExitCode = &code
	}
	return t
}

// lineOf converts a line, with its time as stored.
func lineOf(l bullpen.LogLine) Line {
	return Line{Time: stamp(l.Time.Truncate(time.Microsecond)), Level: l.Level, Stream: l.Stream, Text: l.Text}
}
