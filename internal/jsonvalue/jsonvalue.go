// Package jsonvalue has the values that the daemon's API uses in its JSON: durations in
// seconds, times as in RFC 3339 and UTC, outcomes as words, and the error of a task.
// docs/openapi.yaml describes them.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Marshal is json.Marshal without escaping HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Seconds is a duration: a number of seconds.
type Seconds time.Duration

// MarshalJSON encodes s.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON decodes s. A number that no duration can hold becomes the nearest one
// that can.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var v float64
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*s = Seconds(Duration(v))
	return nil
}

// Duration converts a number of seconds to the nearest duration.
func Duration(seconds float64) time.Duration {
	switch ns := seconds * float64(time.Second); {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(math.Round(ns))
	}
}

// Time is a time. Use it with omitzero: the zero time has no JSON.
type Time time.Time

// IsZero reports whether t is the zero time.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalText encodes t in UTC. As a text it costs less than as a json.Marshaler.
func (t Time) MarshalText() ([]byte, error) { return time.Time(t).UTC().MarshalText() }

// UnmarshalText decodes t.
func (t *Time) UnmarshalText(text []byte) error { return (*time.Time)(t).UnmarshalText(text) }

// Outcome is an outcome: its word.
type Outcome bullpen.Outcome

// MarshalText returns the word. An outcome of a later version becomes lost, because
// this version does not know it.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.Word()), nil }

// Word returns the word.
func (o Outcome) Word() string {
	if int(o) >= bullpen.OutcomeCount {
		o = Outcome(bullpen.Lost)
	}
	return bullpen.Outcome(o).String()
}

// UnmarshalText decodes a word. One of a later version becomes lost.
func (o *Outcome) UnmarshalText(word []byte) error {
	v, err := bullpen.ParseOutcome(string(word))
	if err != nil {
		v = bullpen.Lost
	}
	*o = Outcome(v)
	return nil
}

// Line is a bullpen.LogLine.
type Line struct {
	Time   Time   `json:"time,omitzero"`
	Level  int    `json:"level"`
	Stream string `json:"stream,omitempty"`
	Text   string `json:"text"`
}

// LineOf converts a line. Its time has microseconds.
func LineOf(l bullpen.LogLine) Line {
	return Line{Time(l.Time.Truncate(time.Microsecond)), l.Level, l.Stream, l.Text}
}

// Line converts l back.
func (l Line) Line() bullpen.LogLine {
	return bullpen.LogLine{Time: time.Time(l.Time), Level: l.Level, Stream: l.Stream, Text: l.Text}
}

// Failure is a bullpen.TaskError, without its id.
type Failure struct {
	Outcome   Outcome `json:"outcome"`
	Task      string  `json:"task,omitempty"`
	Type      string  `json:"type,omitempty"`
	Message   string  `json:"message,omitempty"`
	Stack     string  `json:"stack,omitempty"`
	Retryable bool    `json:"retryable,omitempty"`
	Worker    string  `json:"worker,omitempty"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	Signal    string  `json:"signal,omitempty"`
	Detail    string  `json:"detail,omitempty"`
}

// FailureOf converts the error of a task; nil for nil.
func FailureOf(e *bullpen.TaskError) *Failure {
	if e == nil {
		return nil
	}
	f := &Failure{
		Outcome: Outcome(e.Outcome), Task: e.Task, Type: e.Type, Message: e.Message, Stack: e.Stack,
		Retryable: e.Retryable, Worker: e.Worker, Signal: e.Signal, Detail: e.Detail,
	}
	if f.Message == "" && e.Err != nil {
		f.Message = e.Err.Error()
	}
	// An executor without processes leaves the exit code at zero.
	if e.ExitCode > 0 || e.ExitCode == 0 && e.Signal == "" && e.Outcome == bullpen.Crashed {
		code := e.ExitCode
		f.ExitCode = &code
	}
	return f
}

// TaskError converts f back, for the task with an id; nil for nil.
func (f *Failure) TaskError(id string) *bullpen.TaskError {
	if f == nil {
		return nil
	}
	e := &bullpen.TaskError{
		Outcome: bullpen.Outcome(f.Outcome), Task: f.Task, ID: id, Type: f.Type, Message: f.Message, Stack: f.Stack,
		Retryable: f.Retryable, Worker: f.Worker, ExitCode: -1, Signal: f.Signal, Detail: f.Detail,
	}
	if f.ExitCode != nil {
		e.ExitCode = *f.ExitCode
	}
	return e
}
