package client

import (
	"time"

	"github.com/bullpen-run/bullpen"
)

// Priority says which jobs of a pool go first. Of every 13 jobs that are started
// while all three wait, 8 are high, 4 normal and 1 is low.
type Priority string

// The priorities. Empty is Normal.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// State is where a job is.
type State string

// The states of a job.
const (
	// Scheduled: it waits for its time.
	Scheduled State = "scheduled"
	// Queued: it waits for a worker.
	Queued State = "queued"
	// Running: a node has it in hand.
	Running State = "running"
	// Retrying: an attempt has failed, and it waits for the time of the next.
	Retrying State = "retrying"
	// Done: it has ended well.
	Done State = "done"
	// Dead: it has failed for good. It is kept with its evidence.
	Dead State = "dead"
	// Canceled: it was taken back.
	Canceled State = "canceled"
)

// Ended reports whether s is final.
func (s State) Ended() bool { return s == Done || s == Dead || s == Canceled }

// Reason says why a job ended otherwise than well.
type Reason string

// The reasons.
const (
	// Exhausted: all attempts that its policy allows have failed.
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
	// Newer: a later version of Bullpen has recorded its end, and the daemon cannot
	// read the record. It is kept.
	Newer Reason = "newer"
	// TakenBack: it was canceled.
	TakenBack Reason = "canceled"
)

// Job is what is to be done, once. The zero value is a job without payload, with
// what the pool's configuration says of its task and its policy.
type Job struct {
	// Task is the kind of the task: it selects the handler. Empty is the pool's.
	Task string
	// Payload is the input, opaque to Bullpen. It must be left alone until the
	// call has returned.
	Payload []byte
	// Meta travels with the job to its handler. Keys that begin with "bullpen."
	// are Bullpen's.
	Meta map[string]string
	// Group is whose job it is: the groups of a pool have their turns one after the
	// other, and each may be limited (see [Client.SetGroup]). Empty is what the pool's
	// configuration takes from Meta, or none.
	Group string
	// Key makes enqueuing idempotent: while a job of this pool with this key is
	// not done, and a time after its end, another one gives back the first.
	Key string
	// Priority is High, Normal or Low; empty is Normal.
	Priority Priority
	// Delay and At say when the job may start at the earliest; set one. Zero is
	// at once.
	Delay time.Duration
	At    time.Time
	// Deadline ends the job with the outcome timeout if it has not ended by then.
	// Zero is never.
	Deadline time.Time
	// Limits bound each attempt. Zero fields are the pool's own.
	Limits bullpen.Limits
	// Attempts is how many attempts may end badly by themselves, and Crashes how
	// many workers the job may kill; 0 is as the pool has it.
	Attempts, Crashes int
	// Backoff is the time before the second attempt; it doubles with each to
	// MaxBackoff at most. Zero is as the pool has it.
	Backoff, MaxBackoff time.Duration
	// Idempotent declares that running the job twice does what running it once
	// does.
	Idempotent bool
	// Compensate names a task that undoes what the job may have done by half.
	Compensate string
	// Bury names a task that is told once the job is dead, whatever the reason.
	Bury string
	// Parent is the id of the job or task that submits this one, see [WithParent].
	Parent string
	// Pool is where the job goes, of one that Then has or that is of a batch. Empty
	// is the pool of the job before it, or that of the batch.
	Pool string
	// Then has jobs that follow one after the other, each with the result of the one
	// before as its payload, while all end well. They have neither Payload nor Key.
	// Enqueue and Run do not take them: see [Client.EnqueueChain].
	Then []Job
}

// Ref names a job that was enqueued.
type Ref struct {
	ID   string `json:"id"`
	Pool string `json:"pool"`
	// State is where the job was just then.
	State State `json:"state"`
	// Existing says that the job was there before, under the same key.
	Existing bool `json:"existing"`
}
