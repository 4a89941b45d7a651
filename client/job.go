package client

import (
	"time"

	"github.com/bullpen-run/bullpen"
)

// Priority is the priority of a job in its pool. While jobs of all three priorities
// wait, 8 of 13 started jobs are high, 4 normal and 1 is low.
type Priority string

// The priorities. Empty is Normal.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// State is the state of a job.
type State string

// The states of a job.
const (
	// Scheduled: the job waits for its start time.
	Scheduled State = "scheduled"
	// Queued: the job waits for a worker.
	Queued State = "queued"
	// Running: a node has the job in hand.
	Running State = "running"
	// Retrying: an attempt failed, and the job waits for the time of the next.
	Retrying State = "retrying"
	// Done: the job ended well.
	Done State = "done"
	// Dead: the job failed for good. It is kept with its evidence.
	Dead State = "dead"
	// Canceled: the job was canceled.
	Canceled State = "canceled"
)

// Ended reports whether s is final.
func (s State) Ended() bool { return s == Done || s == Dead || s == Canceled }

// Reason is why a job did not end well.
type Reason string

// The reasons.
const (
	// Exhausted: all attempts that the policy allows have failed.
	Exhausted Reason = "exhausted"
	// Final: the handler reported that a retry would not help, or the policy does not
	// retry after this outcome.
	Final Reason = "final"
	// Quarantined: the job killed too many workers or nodes.
	Quarantined Reason = "quarantined"
	// Expired: the job's deadline passed.
	Expired Reason = "expired"
	// Refused: no executor knows the job's task or can keep its limits.
	Refused Reason = "refused"
	// Corrupt: the job's stored record is damaged; the job was not run.
	Corrupt Reason = "corrupt"
	// Newer: a later version of Bullpen recorded the job's end, and the daemon cannot
	// read the record. The record is kept.
	Newer Reason = "newer"
	// TakenBack: the job was canceled.
	TakenBack Reason = "canceled"
)

// Job is a job to enqueue. The zero value is a job without a payload, with the task
// and the policy of the pool's configuration.
type Job struct {
	// Task is the name of the task, which selects the handler. Empty is the pool's
	// default.
	Task string
	// Payload is the input, opaque to Bullpen. It must not be modified until the call
	// has returned.
	Payload []byte
	// Meta is metadata that the handler receives with the job. Keys that begin with
	// "bullpen." are reserved.
	Meta map[string]string
	// Group is the owner of the job, such as a tenant. The groups of a pool take
	// turns, and each can be limited (see [Client.SetGroup]). If empty, the pool's
	// configuration may take the group from Meta; otherwise the job has none.
	Group string
	// Key makes enqueuing idempotent: until some time after a job with this key has
	// ended, enqueuing another one with the key in the same pool returns the first.
	Key string
	// Priority is High, Normal or Low; empty is Normal.
	Priority Priority
	// Delay and At are the earliest start, relative and absolute; set at most one.
	// Zero starts at once.
	Delay time.Duration
	At    time.Time
	// Deadline ends the job with the outcome timeout if it has not ended by then.
	// Zero is no deadline.
	Deadline time.Time
	// Limits bound each attempt. Zero fields are the pool's defaults.
	Limits bullpen.Limits
	// Attempts is the maximum number of attempts that fail by themselves, and Crashes
	// the maximum number of workers that the job kills; 0 is the pool's default.
	Attempts, Crashes int
	// Backoff is the delay before the second attempt. It doubles with each attempt,
	// up to MaxBackoff. Zero is the pool's default.
	Backoff, MaxBackoff time.Duration
	// Idempotent declares that running the job twice has the same effect as running
	// it once.
	Idempotent bool
	// Compensate names a task that undoes what a failed job may have done by half.
	Compensate string
	// Bury names a task that is enqueued when the job is dead, whatever the reason.
	Bury string
	// Parent is the id of the job or task that submits this one; see [WithParent].
	Parent string
	// Pool is the pool of a job in Then or in a batch. Empty is the pool of the job
	// before it, or that of the batch.
	Pool string
	// Then lists jobs that run one after the other when this one has ended well, each
	// with the result of the job before it as its payload. They have neither Payload
	// nor Key. Enqueue and Run do not accept them; see [Client.EnqueueChain].
	Then []Job
}

// Ref refers to an enqueued job.
type Ref struct {
	ID   string `json:"id"`
	Pool string `json:"pool"`
	// State is the state of the job when the daemon answered.
	State State `json:"state"`
	// Existing reports that a job with the same key already existed.
	Existing bool `json:"existing"`
}
