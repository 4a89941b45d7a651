package job

import (
	"errors"
	"fmt"
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

// Ended tells whether s is final.
func (s State) Ended() bool { return s == Done || s == Dead || s == Canceled }

// Reason says why a job ended otherwise than well.
type Reason string

// The reasons.
const (
	// Exhausted: all attempts that the policy allows have failed.
	Exhausted Reason = "exhausted"
	// Final: the handler said that another try is of no use, or the policy does
	// not try again after this outcome.
	Final Reason = "final"
	// Quarantined: it has killed too many workers or nodes.
	Quarantined Reason = "quarantined"
	// Expired: its deadline passed.
	Expired Reason = "expired"
	// Refused: no executor knows its task, or can keep its limits.
	Refused Reason = "refused"
	// Corrupt: what is stored of it is damaged; it was not run.
	Corrupt Reason = "corrupt"
	// Newer: a later version of Bullpen has recorded its end, and this one cannot read
	// the record; see ErrNewer.
	Newer Reason = "newer"
	// TakenBack: it was canceled.
	TakenBack Reason = "canceled"
)

// Ref names a job that was enqueued.
type Ref struct {
	ID string
	// Existing says that the job was there before: an earlier Enqueue had its key.
	Existing bool
	// State is where it was just now.
	State State
	// Attempts counts those that started, of a job whose end Run has told; else 0.
	Attempts int
}

// Info is what there is to know of a job.
type Info struct {
	ID, Queue, Name, Key string
	Priority             Priority
	State                State
	Enqueued             time.Time
	// At is when the job may start, of one that is Scheduled or Retrying.
	At       time.Time
	Deadline time.Time
	// Payload is the input; of a job that is Done or Canceled as long as it is kept
	// (Keep.Payloads), of a dead one in GetDead.
	Payload []byte
	// PayloadSize and ResultSize are in bytes; a list tells them and leaves the
	// payload and the result out.
	PayloadSize, ResultSize int
	Meta                    map[string]string
	// Node and Worker say who runs it or ran it last.
	Node, Worker string
	// Attempts counts those that started, Crashes the workers that died with the job
	// in hand; History has the last attempts.
	Attempts, Crashes int
	History           []Attempt
	// Progress is from 0 to 1, as the handler last told, with its note; Lines
	// are the last lines that it logged or printed.
	Progress float64
	Note     string
	Lines    []bullpen.LogLine
	// Ended, Outcome, Reason, Result, Stats and Err are of a job that has ended.
	Ended   time.Time
	Outcome bullpen.Outcome
	Reason  Reason
	Result  []byte
	Stats   bullpen.Stats
	Err     error // nil or an *EndError
	// Parent is the job that this one tries again or compensates, or the dead one that
	// it is told of.
	Parent string
	// After, of a job in a list, is for Filter.After: a list that goes on behind it.
	After uint64
	// Schedule is the name of the schedule that enqueued the job, and Tick the
	// moment it is for.
	Schedule string
	Tick     time.Time
	// Chain is the id of the first job of the chain that this one belongs to, empty
	// for none; it is number Link of Links there. Next is the id of the one that
	// followed it.
	Chain       string
	Link, Links int
	Next        string
	// Batch is the id of the batch that this job is a member of, empty for none, and
	// Index its place there.
	Batch string
	Index int
	// Compensate, Bury and Group are as in Job.
	Compensate, Bury, Group string
}

// The errors of calls that name a job.
var (
	// ErrNotFound says that the queue does not have the job, or no more.
	ErrNotFound = errors.New("no such job")
	// ErrEnded says that the job has ended already.
	ErrEnded = errors.New("the job has ended")
	// ErrDamaged says that what is stored is not what was stored: its checksum is
	// wrong. A damaged job is not run; it is buried when its turn comes.
	ErrDamaged = errors.New("the stored record is damaged")
	// ErrNewer says that a later version of Bullpen wrote what is stored, in a way that
	// this one cannot read, or that a job has an outcome that only a later version
	// knows. It is kept as it is: use that version.
	ErrNewer = errors.New("written by a later version of Bullpen")
)

// EndError says how a job ended that did not end well.
type EndError struct {
	ID      string
	Outcome bullpen.Outcome
	Reason  Reason
	// Attempts counts those that started; 0 means that the job never ran.
	Attempts int
	// Task is how the last attempt ended; nil where none started.
	Task *bullpen.TaskError
	// Message says more where Task does not.
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
	case e.Task != nil:
		s += fmt.Sprintf(" after %d attempts: %v", e.Attempts, e.Task)
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
// Timeout and context.Canceled for Canceled; and with ErrNewer for an outcome that
// this version does not know.
func (e *EndError) Is(target error) bool {
	if int(e.Outcome) >= bullpen.OutcomeCount && target == ErrNewer {
		return true
	}
	return (&bullpen.TaskError{Outcome: e.Outcome}).Is(target)
}
