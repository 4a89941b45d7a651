package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Info is what there is to know of a job. Fields that the daemon did not tell are
// zero.
type Info struct {
	ID       string   `json:"id"`
	Pool     string   `json:"pool"`
	Task     string   `json:"task"`
	State    State    `json:"state"`
	Key      string   `json:"key"`
	Priority Priority `json:"priority"`
	// Enqueued, At (when it may start, if it waits for a time) and Deadline.
	Enqueued time.Time         `json:"enqueued"`
	At       time.Time         `json:"at"`
	Deadline time.Time         `json:"deadline"`
	Meta     map[string]string `json:"meta"`
	// Attempts counts those that started, Crashes those of them that killed their
	// worker; History has the last of them.
	Attempts int       `json:"attempts"`
	Crashes  int       `json:"crashes"`
	History  []Attempt `json:"history"`
	// Node and Worker say who runs it or ran it last.
	Node   string `json:"node"`
	Worker string `json:"worker"`
	// Progress is from 0 to 1, as the handler last told, with its note; Lines are
	// the last lines that it logged or printed.
	Progress float64 `json:"progress"`
	Note     string  `json:"note"`
	Lines    []Line  `json:"lines"`
	// Ended, Reason, Error, Failure and Stats are of a job that has ended. Error
	// says on one line why it did not end well, Failure how its last attempt ended.
	Ended   time.Time          `json:"ended"`
	Reason  Reason             `json:"reason"`
	Error   string             `json:"error"`
	Outcome bullpen.Outcome    `json:"-"`
	Failure *bullpen.TaskError `json:"-"`
	Stats   bullpen.Stats      `json:"-"`
	// PayloadSize and ResultSize are in bytes. Payload is of a dead job only, from
	// [Client.GetDead].
	PayloadSize int64  `json:"payload_size"`
	ResultSize  int64  `json:"result_size"`
	Payload     []byte `json:"payload_base64"`
	// Parent is the dead job that this one tries again or is told of, or the job that
	// it compensates.
	Parent string `json:"parent"`
	// Compensate, Bury and Group are as in Job.
	Compensate string `json:"compensate"`
	Bury       string `json:"bury"`
	// Schedule is the name of the schedule that has enqueued the job, and Tick the
	// moment it is for.
	Schedule string    `json:"schedule"`
	Tick     time.Time `json:"tick"`
	// Chain is the first job of the chain that this one belongs to: number Link of
	// Links. Next is the job that followed it. Empty and 0: it is in none.
	Chain string `json:"chain"`
	Link  int    `json:"link"`
	Links int    `json:"links"`
	Next  string `json:"next"`
	// Batch is the batch that it is a member of, with its Index there.
	Batch string `json:"batch"`
	Index int    `json:"index"`
	Group string `json:"group"`
	// Raw is the job as the daemon gave it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// Attempt is one handing of a job to a worker.
type Attempt struct {
	// Number counts the attempts of the job that started, from 1.
	Number  int             `json:"number"`
	Outcome bullpen.Outcome `json:"-"`
	Ended   time.Time       `json:"ended"`
	Ran     time.Duration   `json:"-"`
	Node    string          `json:"node"`
	Worker  string          `json:"worker"`
	// Error says why it failed, in one line.
	Error string `json:"error"`
	// Signal and ExitCode are of a worker that died; ExitCode is -1 otherwise.
	Signal     string `json:"signal"`
	ExitCode   int    `json:"exit_code"`
	PeakMemory int64  `json:"peak_memory"`
}

// Line is one line that a task logged or printed.
type Line = bullpen.LogLine

// Err returns how the job ended: nil for one that ended well or has not ended,
// otherwise an [*EndError].
func (i *Info) Err() error {
	if !i.State.Ended() || i.State == Done {
		return nil
	}
	return &EndError{ID: i.ID, Outcome: i.Outcome, Reason: i.Reason, Attempts: i.Attempts, Task: i.Failure, Message: i.Error}
}

// UnmarshalJSON reads a job as the daemon gives it. A field that a newer daemon
// has besides is left to Raw.
func (i *Info) UnmarshalJSON(text []byte) error {
	type plain Info
	wire := struct {
		*plain
		Outcome    outcomeWord `json:"outcome"`
		Failure    *failure    `json:"failure"`
		Waited     seconds     `json:"waited"`
		Ran        seconds     `json:"ran"`
		PeakMemory int64       `json:"peak_memory"`
		Lines      []wireLine  `json:"lines"`
	}{plain: (*plain)(i)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("the daemon's answer is no job: %w", err)
	}
	i.Outcome = bullpen.Outcome(wire.Outcome)
	i.Stats = bullpen.Stats{Waited: wire.Waited.duration(), Ran: wire.Ran.duration(), Worker: i.Worker, PeakMemory: wire.PeakMemory}
	if wire.Failure != nil {
		i.Failure = wire.Failure.taskError(i.ID)
	}
	i.Lines = make([]Line, len(wire.Lines))
	for n, line := range wire.Lines {
		i.Lines[n] = line.line()
	}
	i.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// UnmarshalJSON reads an attempt as the daemon gives it.
func (a *Attempt) UnmarshalJSON(text []byte) error {
	type plain Attempt
	a.ExitCode = -1
	wire := struct {
		*plain
		Outcome outcomeWord `json:"outcome"`
		Ran     seconds     `json:"ran"`
	}{plain: (*plain)(a)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return err
	}
	a.Outcome, a.Ran = bullpen.Outcome(wire.Outcome), wire.Ran.duration()
	return nil
}

// Filter says which jobs to list.
type Filter struct {
	// Pool and Task select by these; empty is all.
	Pool, Task string
	// Group, Schedule and Batch select by these; empty is all. Batch is an id.
	Group, Schedule, Batch string
	// State selects by state; empty is all. It is not looked at for dead jobs.
	State State
	// Reason and Outcome select dead jobs by why and how they died; empty is all.
	Reason  Reason
	Outcome string
	// Cause selects dead jobs by what they died of, as [Client.DeadCauses] tells it.
	Cause string
	// Search selects jobs that have this text in their id, task, key, group or, once they
	// have ended, error.
	Search string
	// Since and Before select by when the job ended, or was enqueued if it has not.
	Since, Before time.Time
	// Newest lists the last ones first.
	Newest bool
	// Limit is the most jobs of one page; 0 is the daemon's default. For
	// [Client.RetryDeadAll] and what else is done to many jobs it is the most of them.
	Limit int
	// After goes on behind [Page.Next] or [Swept.Next]; empty begins.
	After string
	// All lets RetryDeadAll, RemoveDeadAll and CancelAll take all jobs, which they
	// otherwise do for a selection only.
	All bool
}

// Page is a part of a list.
type Page struct {
	Jobs []Info `json:"jobs"`
	// Next is for [Filter.After]; empty says that this was the last page.
	Next string `json:"next"`
}

// Swept is what became of jobs that were retried, removed or canceled together.
type Swept struct {
	// Count is how many it was done to.
	Count int `json:"count"`
	// Failed has those that it was not done to, with the reason.
	Failed []struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	} `json:"failed"`
	// More says that there are more than one call does; Next is for [Filter.After] of
	// another that goes on behind those that this one has looked at.
	More bool   `json:"more"`
	Next string `json:"next,omitempty"`
}
