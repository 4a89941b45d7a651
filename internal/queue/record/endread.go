package record

import (
	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Err returns the end as an error, nil if the job ended ok.
func (e *End) Err() error {
	if e.Outcome == bullpen.OK {
		return nil
	}
	t := e.Failure
	if t != nil {
		named := *t
		named.ID = e.ID
		t = &named
	}
	return &job.EndError{ID: e.ID, Outcome: e.Outcome, Reason: e.Reason, Attempts: e.Tries.Started, Task: t, Message: e.Message}
}

// State returns the state of a job that ended with e.
func (e *End) State() job.State {
	switch {
	case e.Outcome == bullpen.OK, int(e.Outcome) >= bullpen.OutcomeCount && e.Reason == "":
		return job.Done // for an unknown outcome, Reason says whether it is bad
	case e.Reason == job.TakenBack:
		return job.Canceled
	default:
		return job.Dead
	}
}

// Info returns what the end says about the job.
func (e *End) Info() *job.Info {
	i := &job.Info{
		ID: e.ID, Queue: e.Queue, Name: e.Name, Key: e.Key, Priority: e.Priority, State: e.State(),
		Enqueued: e.Enqueued, Node: e.Node, Worker: e.Stats.Worker,
		Attempts: e.Tries.Started, Crashes: e.Tries.Crashes, History: e.Tries.History,
		Progress: e.Progress, Note: e.Note, Lines: e.Lines,
		Ended: e.Ended, Outcome: e.Outcome, Reason: e.Reason, Result: e.Result, ResultSize: len(e.Result), Stats: e.Stats, Err: e.Err(),
		Schedule: e.Schedule, Tick: e.Tick,
		Next: e.Next, Batch: e.Batch, Index: e.Index,
		Chain: e.Chain.First, Link: e.Chain.Number, Links: e.Chain.Of,
		Parent: e.Parent, Compensate: e.Compensate, Bury: e.Bury, Group: e.Group,
		PayloadSize: e.Size,
	}
	if i.Attempts == 0 && e.Outcome == bullpen.OK {
		i.Attempts = 1
	}
	return i
}

// Started reports whether the handler of an ended job may have run.
func (e *End) Started() bool {
	return e.Tries.Started > 0 || e.Tries.Crashes > 0 || e.Failure != nil && e.Failure.Outcome != bullpen.OK
}

// Give returns what callers that wait for the job receive.
func (e *End) Give() (bullpen.Result, error) {
	return bullpen.Result{Payload: e.Result, Stats: e.Stats}, e.Err()
}

// Kept returns the job that e keeps, nil for none. A dead job lies in the stream Dead.
func (e *End) Kept() *Job {
	if len(e.Job) == 0 {
		return nil
	}
	s, err := DecodeJob(e.ID, e.Job)
	if err != nil {
		return nil // the outcome is valid without it
	}
	s.Job.Queue, s.Job.Priority = e.Queue, e.Priority
	return s
}
