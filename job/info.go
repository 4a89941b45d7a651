package job

import (
	"errors"
	"fmt"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// State is where a job is.
type State uint8

// The states of a job.
const (
	// Scheduled: it waits for its time.
	Scheduled State = iota
	// Queued: it waits for a worker.
	Queued
	// Running: a node has it in hand.
	Running
	// Retrying: an attempt has failed, and it waits for the time of the next.
	Retrying
	// Done: it has ended well.
	Done
	// Dead: it has failed for good. It is kept with its evidence.
	Dead
	// Canceled: it was taken back.
	Canceled
)

// jobStates is the table of a job's life. The moves are made by the streams that
// hold the job: each is one stored message.
var jobStates = lifecycle.Table[State]{
	Name: "job",
	States: map[State]string{
		Scheduled: "scheduled", Queued: "queued", Running: "running", Retrying: "retrying",
		Done: "done", Dead: "dead", Canceled: "canceled",
	},
	Moves: map[State][]State{
		Scheduled: {Queued, Dead, Canceled},
		Queued:    {Running, Dead, Canceled},
		Running:   {Queued, Retrying, Done, Dead, Canceled},
		Retrying:  {Queued, Running, Dead, Canceled},
		Done:      nil,
		Dead:      nil,
		Canceled:  nil,
	},
}

// String returns the word for s.
func (s State) String() string { return jobStates.Word(s) }

// ParseState returns the state that word names.
func ParseState(word string) (State, error) {
	for s, name := range jobStates.States {
		if name == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown state %q: use scheduled, queued, running, retrying, done, dead or canceled", word)
}

// MarshalText returns the word for s.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseState.
func (s *State) UnmarshalText(word []byte) (err error) {
	*s, err = ParseState(string(word))
	return err
}

// Ended reports whether s is final.
func (s State) Ended() bool { return s == Done || s == Dead || s == Canceled }

// Reason says why a job did not end ok.
type Reason string

// The reasons.
const (
	// Exhausted: all attempts that the policy allows have failed.
	Exhausted Reason = "exhausted"
	// Final: the handler said that retrying would not help, or the policy does not
	// retry after this outcome.
	Final Reason = "final"
	// Quarantined: it has killed too many workers or nodes.
	Quarantined Reason = "quarantined"
	// Expired: its deadline passed.
	Expired Reason = "expired"
	// Refused: no executor knows its task, or can keep its limits.
	Refused Reason = "refused"
	// Corrupt: its stored record is damaged; it was not run.
	Corrupt Reason = "corrupt"
	// Newer: a later version of Bullpen has recorded its end, and this one cannot read
	// the record; see ErrNewer.
	Newer Reason = "newer"
	// TakenBack: it was canceled.
	TakenBack Reason = "canceled"
)

// Ref names a job that was enqueued.
type Ref struct {
	ID    string `json:"id"`
	Queue string `json:"pool,omitempty"`
	// State is the state of the job at the time of the call.
	State State `json:"state"`
	// Existing reports whether the job was there before: an earlier Enqueue had the
	// same key.
	Existing bool `json:"existing"`
	// Attempts is how many attempts started. Only Run sets it.
	Attempts int `json:"attempts,omitempty"`
}

// Info is what there is to know of a job.
type Info struct {
	ID, Queue, Name, Key string
	Priority             Priority
	State                State
	Enqueued             time.Time
	// At is when a job that is Scheduled or Retrying may start.
	At       time.Time
	Deadline time.Time
	// Payload is the input. For a job that is Done or Canceled it is set as long as it
	// is kept (Keep.Payloads), for a dead one by GetDead.
	Payload []byte
	// PayloadSize and ResultSize are in bytes. A list has these instead of the payload
	// and the result.
	PayloadSize, ResultSize int
	Meta                    map[string]string
	// Node and Worker run the job, or ran its last attempt.
	Node, Worker string
	// Attempts is how many attempts started, Crashes how many workers died while they
	// had the job. History has the last 16 attempts.
	Attempts, Crashes int
	History           []Attempt
	// LastError is why the last attempt of a job that has not ended failed, on one line.
	LastError string
	// Progress, from 0 to 1, and Note are what the handler reported last. Lines are the
	// last lines that it logged or printed.
	Progress float64
	Note     string
	Lines    []bullpen.LogLine
	// Ended, Outcome, Reason, Result, Stats and Err are set when the job has ended.
	Ended   time.Time
	Outcome bullpen.Outcome
	Reason  Reason
	Result  []byte
	Stats   bullpen.Stats
	Err     error // nil or an *EndError
	// Parent is the id of the job that this one retries, compensates or buries.
	Parent string
	// Schedule is the name of the schedule that enqueued the job, Tick the time that
	// the job is for.
	Schedule string
	Tick     time.Time
	// Chain is the id of the first job of the chain that this one belongs to, empty
	// for none. It is job number Link of Links there; Next is the id of the job after it.
	Chain       string
	Link, Links int
	Next        string
	// Batch is the id of the batch that this job is a member of, empty for none; Index
	// is its number there, from 0.
	Batch string
	Index int
	// Compensate, Bury and Group are as in Job.
	Compensate, Bury, Group string
}

// ErrorText returns why the job, or its last attempt, failed, on one line and without
// its id, outcome and reason; empty if it did not fail.
func (i *Info) ErrorText() string {
	end, ok := errors.AsType[*EndError](i.Err)
	switch {
	case i.Err == nil:
		return i.LastError
	case !ok || errors.Is(i.Err, ErrNewer):
		return i.Err.Error()
	case end.Task == nil:
		return end.Message
	case end.Task.Message != "":
		return end.Task.Message
	case end.Task.Err != nil:
		return end.Task.Err.Error()
	}
	task := *end.Task
	task.ID, task.Task = "", ""
	return task.Error()
}

// The errors of calls that name a job.
var (
	// ErrNotFound: the queue does not have the job, or no longer has it.
	ErrNotFound = errors.New("no such job")
	// ErrEnded: the job has already ended.
	ErrEnded = errors.New("the job has ended")
	// ErrDamaged: a stored record does not match its checksum. A damaged job is not
	// run; it becomes dead when its turn comes.
	ErrDamaged = errors.New("the stored record is damaged")
	// ErrNewer: a later version of Bullpen wrote the record in a form that this one
	// cannot read, or recorded an outcome that this one does not know. The record is
	// kept as it is; use that version.
	ErrNewer = errors.New("written by a later version of Bullpen")
)

// EndError is how a job ended that did not end ok.
type EndError struct {
	ID      string
	Outcome bullpen.Outcome
	Reason  Reason
	// Attempts is how many attempts started; 0 means that the job never ran.
	Attempts int
	// Task is how the last attempt ended; nil if none started.
	Task *bullpen.TaskError
	// Message says more if Task is nil.
	Message string
}

// Error gives reason and cause on one line.
func (e *EndError) Error() string {
	s := "job " + e.ID + " ended " + e.Outcome.String()
	if e.Reason != "" && e.Reason != TakenBack {
		s += " (" + string(e.Reason) + ")"
	}
	if int(e.Outcome) >= bullpen.OutcomeCount {
		s += ", " + ErrNewer.Error()
	}
	switch {
	case e.Task != nil && e.Attempts > 1:
		s += fmt.Sprintf(" after %d attempts: %v", e.Attempts, e.Task)
	case e.Task != nil:
		s += ": " + e.Task.Error()
	case e.Message != "":
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the end of the last attempt.
func (e *EndError) Unwrap() error {
	if e.Task == nil {
		return nil
	}
	return e.Task
}

// Is makes errors.Is work as for a task: with context.DeadlineExceeded for
// Timeout and context.Canceled for Canceled; with bullpen.ErrRefused if no executor
// accepted the job, and then with bullpen.ErrUnknownTask if that was the reason; and
// with ErrNewer if a later version recorded the end.
func (e *EndError) Is(target error) bool {
	switch target {
	case ErrNewer:
		return e.Reason == Newer || int(e.Outcome) >= bullpen.OutcomeCount
	case bullpen.ErrRefused:
		return e.Reason == Refused
	case bullpen.ErrUnknownTask:
		return e.Reason == Refused && strings.Contains(e.Message, bullpen.ErrUnknownTask.Error())
	}
	return (&bullpen.TaskError{Outcome: e.Outcome}).Is(target)
}
