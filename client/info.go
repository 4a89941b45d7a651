package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Info describes a job. Fields that the daemon did not send are zero.
type Info struct {
	ID       string   `json:"id"`
	Pool     string   `json:"pool"`
	Task     string   `json:"task"`
	State    State    `json:"state"`
	Key      string   `json:"key"`
	Priority Priority `json:"priority"`
	// Enqueued is when the job was stored. At is when it may start, if it waits for a
	// time.
	Enqueued time.Time         `json:"enqueued"`
	At       time.Time         `json:"at"`
	Deadline time.Time         `json:"deadline"`
	Meta     map[string]string `json:"meta"`
	// Attempts is the number of attempts that started, and Crashes the number of
	// those that killed their worker. History has the most recent attempts.
	Attempts int       `json:"attempts"`
	Crashes  int       `json:"crashes"`
	History  []Attempt `json:"history"`
	// Node and Worker are the node and the worker that run the job or ran it last.
	Node   string `json:"node"`
	Worker string `json:"worker"`
	// Progress, from 0 to 1, and Note are what the handler last reported. Lines are
	// the last lines that it logged or printed.
	Progress float64 `json:"progress"`
	Note     string  `json:"note"`
	Lines    []Line  `json:"lines"`
	// Ended, Reason, Error, Failure and Stats are set once the job has ended. Error
	// is the reason it did not end well, on one line; Failure is the error of its
	// last attempt.
	Ended   time.Time          `json:"ended"`
	Reason  Reason             `json:"reason"`
	Error   string             `json:"error"`
	Outcome bullpen.Outcome    `json:"-"`
	Failure *bullpen.TaskError `json:"-"`
	Stats   bullpen.Stats      `json:"-"`
	// PayloadSize and ResultSize are in bytes. Payload is set only for a dead job
	// from [Client.GetDead].
	PayloadSize int64  `json:"payload_size"`
	ResultSize  int64  `json:"result_size"`
	Payload     []byte `json:"payload_base64"`
	// Parent is the job that caused this one: the dead job that it retries or buries,
	// or the job that it compensates.
	Parent string `json:"parent"`
	// Compensate, Bury and Group are as in Job.
	Compensate string `json:"compensate"`
	Bury       string `json:"bury"`
	// Schedule is the name of the schedule that enqueued the job, and Tick the tick
	// that it was enqueued for.
	Schedule string    `json:"schedule"`
	Tick     time.Time `json:"tick"`
	// Chain is the first job of the chain that contains this one, which is number
	// Link of Links. Next is the job that followed it. All are zero if the job is in
	// no chain.
	Chain string `json:"chain"`
	Link  int    `json:"link"`
	Links int    `json:"links"`
	Next  string `json:"next"`
	// Batch is the id of the batch that the job is a member of, and Index its number
	// there.
	Batch string `json:"batch"`
	Index int    `json:"index"`
	Group string `json:"group"`
	// Raw is the job as the daemon returned it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// Attempt is one attempt to run a job.
type Attempt struct {
	// Number counts the job's started attempts, from 1.
	Number  int             `json:"number"`
	Outcome bullpen.Outcome `json:"-"`
	Ended   time.Time       `json:"ended"`
	Ran     time.Duration   `json:"-"`
	Node    string          `json:"node"`
	Worker  string          `json:"worker"`
	// Error is why the attempt failed, on one line.
	Error string `json:"error"`
	// Signal and ExitCode are set if the worker died; otherwise ExitCode is -1.
	Signal     string `json:"signal"`
	ExitCode   int    `json:"exit_code"`
	PeakMemory int64  `json:"peak_memory"`
}

// Line is one line that a task logged or printed.
type Line = bullpen.LogLine

// Err returns nil if the job ended well or has not ended, and an [*EndError]
// otherwise.
func (i *Info) Err() error {
	if !i.State.Ended() || i.State == Done {
		return nil
	}
	return &EndError{ID: i.ID, Outcome: i.Outcome, Reason: i.Reason, Attempts: i.Attempts, Task: i.Failure, Message: i.Error}
}

// UnmarshalJSON decodes a job from the daemon's JSON. Fields that only a newer daemon
// has are left to Raw.
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

// UnmarshalJSON decodes an attempt from the daemon's JSON.
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

// Filter selects the jobs to list.
type Filter struct {
	// Pool and Task select by pool and task; empty selects all.
	Pool, Task string
	// Group, Schedule and Batch select by group, schedule and batch id; empty selects
	// all.
	Group, Schedule, Batch string
	// State selects by state; empty selects all. It is ignored for dead jobs.
	State State
	// Reason and Outcome select dead jobs by reason and outcome; empty selects all.
	Reason  Reason
	Outcome string
	// Cause selects dead jobs by cause, as returned by [Client.DeadCauses].
	Cause string
	// Search selects jobs with this text in their id, task, key, group or, once they
	// have ended, error.
	Search string
	// Since and Before select by when the job ended, or was enqueued if it has not
	// ended.
	Since, Before time.Time
	// Newest lists the newest jobs first.
	Newest bool
	// Limit is the maximum number of jobs on a page; 0 is the daemon's default. For
	// [Client.RetryDeadAll] and the other bulk operations it is the maximum number of
	// jobs.
	Limit int
	// After continues a list: it is the [Page.Next] or [Swept.Next] returned before.
	// Empty starts at the beginning.
	After string
	// All makes RetryDeadAll, RemoveDeadAll and CancelAll apply to all jobs; without
	// it they require a selection.
	All bool
}

// Page is one page of a list of jobs.
type Page struct {
	Jobs []Info `json:"jobs"`
	// Next is the [Filter.After] of the next page; empty on the last page.
	Next string `json:"next"`
}

// Swept is the result of retrying, removing or canceling many jobs.
type Swept struct {
	// Count is the number of jobs that were retried, removed or canceled.
	Count int `json:"count"`
	// Failed lists the jobs for which that failed, with the reason.
	Failed []struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	} `json:"failed"`
	// More reports that jobs are left; call again with Next as [Filter.After] to
	// continue after the jobs examined so far.
	More bool   `json:"more"`
	Next string `json:"next,omitempty"`
}
