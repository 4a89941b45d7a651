package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// The JSON of this package is that of the daemon's API: docs/openapi.yaml describes it. A
// queue is called pool there, and the name of a task is called task. Durations are in
// seconds. What is zero or not known is left out. Decoding ignores fields of later
// versions.

// jobJSON is a Job.
type jobJSON struct {
	Queue         string            `json:"pool,omitempty"`
	Name          string            `json:"task,omitempty"`
	Payload       string            `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Key           string            `json:"key,omitempty"`
	Group         string            `json:"group,omitempty"`
	Priority      Priority          `json:"priority,omitempty"`
	Delay         jsonvalue.Seconds `json:"delay,omitempty"`
	At            jsonvalue.Time    `json:"at,omitzero"`
	Deadline      jsonvalue.Time    `json:"deadline,omitzero"`
	Timeout       jsonvalue.Seconds `json:"timeout,omitempty"`
	Memory        int64             `json:"memory,omitempty"`
	CPU           float64           `json:"cpu,omitempty"`
	Output        int               `json:"output,omitempty"`
	Attempts      int               `json:"attempts,omitempty"`
	Backoff       jsonvalue.Seconds `json:"backoff,omitempty"`
	MaxBackoff    jsonvalue.Seconds `json:"max_backoff,omitempty"`
	Crashes       int               `json:"crashes,omitempty"`
	Idempotent    bool              `json:"idempotent,omitempty"`
	Compensate    string            `json:"compensate,omitempty"`
	Bury          string            `json:"bury,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Then          []Job             `json:"then,omitempty"`
}

// MarshalJSON encodes j, without Retry.Nodes and Retry.On. A payload that is not UTF-8
// becomes base64; other texts must be UTF-8.
func (j Job) MarshalJSON() ([]byte, error) {
	if err := j.checkText(); err != nil {
		return nil, err
	}
	w := jobJSON{
		Queue: j.Queue, Name: j.Name, Key: j.Key, Group: j.Group, Priority: j.Priority,
		Delay: jsonvalue.Seconds(j.Delay), At: jsonvalue.Time(j.At), Deadline: jsonvalue.Time(j.Deadline),
		Timeout: jsonvalue.Seconds(j.Limits.Timeout), Memory: j.Limits.Memory, CPU: j.Limits.CPU, Output: j.Limits.Output,
		Attempts: j.Retry.Attempts, Backoff: jsonvalue.Seconds(j.Retry.Backoff), MaxBackoff: jsonvalue.Seconds(j.Retry.MaxBackoff), Crashes: j.Retry.Crashes,
		Idempotent: j.Idempotent, Compensate: j.Compensate, Bury: j.Bury, Meta: j.Meta, Then: j.Then,
	}
	if utf8.Valid(j.Payload) {
		w.Payload = string(j.Payload)
	} else {
		w.PayloadBase64 = j.Payload
	}
	return jsonvalue.Marshal(&w)
}

// checkText reports a text of j that JSON cannot hold.
func (j *Job) checkText() error {
	for _, text := range []struct{ field, value string }{{"Name", j.Name}, {"Key", j.Key}, {"Group", j.Group}, {"Compensate", j.Compensate}, {"Bury", j.Bury}} {
		if !utf8.ValidString(text.value) {
			return fmt.Errorf("%s is not UTF-8: put binary data into Payload", text.field)
		}
	}
	for key, value := range j.Meta {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return errors.New("Meta is not UTF-8: put binary data into Payload")
		}
	}
	return nil
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (j *Job) UnmarshalJSON(text []byte) error {
	var w jobJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no job: %w", err)
	}
	*j = Job{
		Queue: w.Queue, Name: w.Name, Payload: w.PayloadBase64, Key: w.Key, Group: w.Group, Priority: w.Priority,
		Delay: time.Duration(w.Delay), At: time.Time(w.At), Deadline: time.Time(w.Deadline),
		Limits:     bullpen.Limits{Timeout: time.Duration(w.Timeout), Memory: w.Memory, CPU: w.CPU, Output: w.Output},
		Retry:      Retry{Attempts: w.Attempts, Backoff: time.Duration(w.Backoff), MaxBackoff: time.Duration(w.MaxBackoff), Crashes: w.Crashes},
		Idempotent: w.Idempotent, Compensate: w.Compensate, Bury: w.Bury, Meta: w.Meta, Then: w.Then,
	}
	if w.Payload != "" {
		j.Payload = []byte(w.Payload)
	}
	return nil
}

// Parameters calls set with each parameter that j has as a query of the daemon's API.
// Queue, Payload, Meta and Then are no parameters.
func (j *Job) Parameters(set func(name, value string)) {
	text := func(name, value string) {
		if value != "" {
			set(name, value)
		}
	}
	span := func(name string, d time.Duration) {
		if d != 0 {
			set(name, d.String())
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			set(name, strconv.FormatInt(n, 10))
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	text("task", j.Name)
	text("key", j.Key)
	text("group", j.Group)
	if j.Priority != Normal {
		set("priority", j.Priority.String())
	}
	span("delay", j.Delay)
	moment("at", j.At)
	moment("deadline", j.Deadline)
	span("timeout", j.Limits.Timeout)
	number("memory", j.Limits.Memory)
	if j.Limits.CPU != 0 {
		set("cpu", strconv.FormatFloat(j.Limits.CPU, 'g', -1, 64))
	}
	number("output", int64(j.Limits.Output))
	number("attempts", int64(j.Retry.Attempts))
	span("backoff", j.Retry.Backoff)
	span("max_backoff", j.Retry.MaxBackoff)
	number("crashes", int64(j.Retry.Crashes))
	if j.Idempotent {
		set("idempotent", "true")
	}
	text("compensate", j.Compensate)
	text("bury", j.Bury)
}

// infoJSON is an Info.
type infoJSON struct {
	ID          string             `json:"id"`
	Queue       string             `json:"pool,omitempty"`
	Name        string             `json:"task,omitempty"`
	State       State              `json:"state"`
	Key         string             `json:"key,omitempty"`
	Group       string             `json:"group,omitempty"`
	Priority    *Priority          `json:"priority,omitempty"` // nil for a damaged job
	Enqueued    jsonvalue.Time     `json:"enqueued,omitzero"`
	At          jsonvalue.Time     `json:"at,omitzero"`
	Deadline    jsonvalue.Time     `json:"deadline,omitzero"`
	Attempts    int                `json:"attempts"`
	Crashes     int                `json:"crashes,omitempty"`
	Node        string             `json:"node,omitempty"`
	Worker      string             `json:"worker,omitempty"`
	Progress    float64            `json:"progress,omitempty"`
	Note        string             `json:"note,omitempty"`
	Ended       jsonvalue.Time     `json:"ended,omitzero"`
	Outcome     *jsonvalue.Outcome `json:"outcome,omitempty"` // nil until the job has ended
	Reason      Reason             `json:"reason,omitempty"`
	Error       string             `json:"error,omitempty"`
	PayloadSize int                `json:"payload_size,omitempty"`
	ResultSize  int                `json:"result_size,omitempty"`
	Waited      jsonvalue.Seconds  `json:"waited,omitempty"`
	Ran         jsonvalue.Seconds  `json:"ran,omitempty"`
	PeakMemory  int64              `json:"peak_memory,omitempty"`
	Parent      string             `json:"parent,omitempty"`
	Compensate  string             `json:"compensate,omitempty"`
	Bury        string             `json:"bury,omitempty"`
	Schedule    string             `json:"schedule,omitempty"`
	Tick        jsonvalue.Time     `json:"tick,omitzero"`
	Chain       string             `json:"chain,omitempty"`
	Link        int                `json:"link,omitempty"`
	Links       int                `json:"links,omitempty"`
	Next        string             `json:"next,omitempty"`
	Batch       string             `json:"batch,omitempty"`
	Index       *int               `json:"index,omitempty"` // nil outside a batch
	Meta        map[string]string  `json:"meta,omitempty"`
	History     []Attempt          `json:"history,omitempty"`
	Lines       []jsonvalue.Line   `json:"lines,omitempty"`
	Failure     *jsonvalue.Failure `json:"failure,omitempty"`
	Payload     []byte             `json:"payload_base64,omitempty"`
}

// MarshalJSON encodes i, without Result.
func (i Info) MarshalJSON() ([]byte, error) {
	w := infoJSON{
		ID: i.ID, Queue: i.Queue, Name: i.Name, State: i.State, Key: i.Key, Group: i.Group,
		Enqueued: jsonvalue.Time(i.Enqueued), At: jsonvalue.Time(i.At), Deadline: jsonvalue.Time(i.Deadline),
		Attempts: i.Attempts, Crashes: i.Crashes, Node: i.Node, Worker: i.Worker, Progress: i.Progress, Note: i.Note,
		Reason: i.Reason, Error: i.ErrorText(), PayloadSize: i.PayloadSize, ResultSize: i.ResultSize,
		Waited: jsonvalue.Seconds(i.Stats.Waited), Ran: jsonvalue.Seconds(i.Stats.Ran), PeakMemory: i.Stats.PeakMemory,
		Parent: i.Parent, Compensate: i.Compensate, Bury: i.Bury, Schedule: i.Schedule, Tick: jsonvalue.Time(i.Tick),
		Chain: i.Chain, Link: i.Link, Links: i.Links, Next: i.Next, Batch: i.Batch,
		Meta: i.Meta, History: i.History, Payload: i.Payload,
	}
	if i.Queue != "" {
		w.Priority = &i.Priority
	}
	if i.State.Ended() {
		w.Ended, w.Outcome = jsonvalue.Time(i.Ended), (*jsonvalue.Outcome)(&i.Outcome)
	}
	if errors.Is(i.Err, ErrNewer) && w.Reason == "" {
		w.Reason = Newer
	}
	if i.Batch != "" {
		w.Index = &i.Index
	}
	for _, l := range i.Lines {
		w.Lines = append(w.Lines, jsonvalue.LineOf(l))
	}
	if end, ok := errors.AsType[*EndError](i.Err); ok {
		w.Failure = jsonvalue.FailureOf(end.Task)
	}
	return jsonvalue.Marshal(&w)
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (i *Info) UnmarshalJSON(text []byte) error {
	var w infoJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no job: %w", err)
	}
	*i = Info{
		ID: w.ID, Queue: w.Queue, Name: w.Name, State: w.State, Key: w.Key, Group: w.Group,
		Enqueued: time.Time(w.Enqueued), At: time.Time(w.At), Deadline: time.Time(w.Deadline),
		Attempts: w.Attempts, Crashes: w.Crashes, Node: w.Node, Worker: w.Worker, Progress: w.Progress, Note: w.Note,
		Ended: time.Time(w.Ended), Reason: w.Reason, PayloadSize: w.PayloadSize, ResultSize: w.ResultSize,
		Stats:  bullpen.Stats{Waited: time.Duration(w.Waited), Ran: time.Duration(w.Ran), Worker: w.Worker, PeakMemory: w.PeakMemory},
		Parent: w.Parent, Compensate: w.Compensate, Bury: w.Bury, Schedule: w.Schedule, Tick: time.Time(w.Tick),
		Chain: w.Chain, Link: w.Link, Links: w.Links, Next: w.Next, Batch: w.Batch,
		Meta: w.Meta, History: w.History, Payload: w.Payload,
	}
	if w.Priority != nil {
		i.Priority = *w.Priority
	}
	if w.Outcome != nil {
		i.Outcome = bullpen.Outcome(*w.Outcome)
	}
	if w.Index != nil {
		i.Index = *w.Index
	}
	for _, l := range w.Lines {
		i.Lines = append(i.Lines, l.Line())
	}
	switch {
	case !w.State.Ended():
		i.LastError = w.Error
	case w.State != Done || w.Error != "":
		i.Err = &EndError{ID: w.ID, Outcome: i.Outcome, Reason: w.Reason, Attempts: w.Attempts, Task: w.Failure.TaskError(w.ID), Message: w.Error}
	}
	return nil
}

// attemptJSON is an Attempt.
type attemptJSON struct {
	Number     int               `json:"number"`
	Outcome    jsonvalue.Outcome `json:"outcome"`
	Ended      jsonvalue.Time    `json:"ended,omitzero"`
	Ran        jsonvalue.Seconds `json:"ran,omitempty"`
	Node       string            `json:"node,omitempty"`
	Worker     string            `json:"worker,omitempty"`
	Error      string            `json:"error,omitempty"`
	Signal     string            `json:"signal,omitempty"`
	ExitCode   *int              `json:"exit_code,omitempty"` // nil for -1
	PeakMemory int64             `json:"peak_memory,omitempty"`
}

// MarshalJSON encodes a.
func (a Attempt) MarshalJSON() ([]byte, error) {
	w := attemptJSON{
		Number: a.Number, Outcome: jsonvalue.Outcome(a.Outcome), Ended: jsonvalue.Time(a.Ended), Ran: jsonvalue.Seconds(a.Ran),
		Node: a.Node, Worker: a.Worker, Error: a.Error, Signal: a.Signal, PeakMemory: a.PeakMemory,
	}
	if a.ExitCode >= 0 && a.Outcome != bullpen.OK {
		w.ExitCode = &a.ExitCode
	}
	return jsonvalue.Marshal(&w)
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (a *Attempt) UnmarshalJSON(text []byte) error {
	var w attemptJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no attempt: %w", err)
	}
	*a = Attempt{
		Number: w.Number, Outcome: bullpen.Outcome(w.Outcome), Ended: time.Time(w.Ended), Ran: time.Duration(w.Ran),
		Node: w.Node, Worker: w.Worker, Error: w.Error, Signal: w.Signal, ExitCode: -1, PeakMemory: w.PeakMemory,
	}
	if w.ExitCode != nil {
		a.ExitCode = *w.ExitCode
	}
	return nil
}
