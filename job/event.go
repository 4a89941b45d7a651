package job

import (
	"fmt"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events. What succeeds has no event: it is counted in queue.Stats.
const (
	// Redelivered: a job was delivered again after its node died.
	Redelivered EventKind = iota + 1
	// Retried: an attempt failed, and another will follow.
	Retried
	// GaveBack: a job that the executor did not start was returned to the queue.
	GaveBack
	// Buried: a job failed for good and is dead now; Text says why.
	Buried
	// TookBack: a job was canceled.
	TookBack
	// Compensated: the compensation of a job was enqueued.
	Compensated
	// BuryEnqueued: the burial of a dead job was enqueued (see Job.Bury).
	BuryEnqueued
	// TriedAgain: a job that had ended was enqueued again.
	TriedAgain
	// Damaged: a stored record does not match its checksum.
	Damaged
	// Unreadable: a later version recorded the end of a job in a form that this one
	// cannot read. The record and the job are left to that version.
	Unreadable
	// Missing: members of a batch are no longer in the queue, and their outcomes are
	// not known.
	Missing
	// NotKept: something could not be stored. It will be retried, or the outcome does
	// not depend on it.
	NotKept
	// Full: an enqueue was refused because the queue or its disk is full.
	Full
	// Paused, Resumed: a queue was paused, or resumed.
	Paused
	Resumed
	// Verified: all stored jobs were read and their checksums verified; Count is how
	// many there are.
	Verified
	// HeldOff: a node takes no jobs for a while, because its executor cannot start
	// workers or is full; Text says why.
	HeldOff
	// ScheduleFired: a schedule enqueued a job; Text says for which tick.
	ScheduleFired
	// TickSkipped: a tick enqueued no job, because the last job has not ended.
	TickSkipped
	// TicksMissed: ticks passed for which no node enqueued a job in time; Count is how
	// many.
	TicksMissed
	// ScheduleFailed: a tick could not enqueue its job, which is retried until the next
	// tick; or a schedule cannot tick at all. Text says why.
	ScheduleFailed
	// StoreFailed: the store has failed and confirms nothing from now on.
	StoreFailed
	// BatchProgress: members of a batch have ended; Count is how many so far. At most
	// one such event a second.
	BatchProgress
	// BatchFailed: the first member has failed for good, and the callback for that is
	// enqueued. BatchEnded: all members have ended. BatchTookBack: the batch was
	// canceled.
	BatchFailed
	BatchEnded
	BatchTookBack
)

var eventNames = [...]string{
	Redelivered: "redelivered", Retried: "will be tried again", GaveBack: "given back", Buried: "dead",
	TookBack: "canceled", Compensated: "compensation enqueued", BuryEnqueued: "its bury task enqueued", TriedAgain: "dead job enqueued again",
	Damaged: "stored record is damaged", Unreadable: "outcome was recorded by a later version", Missing: "confirmed job is missing", NotKept: "not stored",
	Full: "enqueue refused", Paused: "queue paused", Resumed: "queue resumed", Verified: "store verified",
	HeldOff: "holding off", ScheduleFired: "schedule fired", TickSkipped: "tick of a schedule skipped",
	TicksMissed: "ticks of a schedule missed", ScheduleFailed: "schedule cannot fire", StoreFailed: "store failed",
	BatchProgress: "batch progressed", BatchFailed: "first member of a batch failed", BatchEnded: "batch ended", BatchTookBack: "batch canceled",
}

// String returns the words for k.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is something that happened in this program's part of a queue.
type Event struct {
	Time             time.Time
	Kind             EventKind
	Queue, Task, Job string // empty where there is none
	Schedule         string // of what a schedule does
	Batch            string // its id, of what is about one
	Attempt          int    // of Retried, Redelivered and Buried
	Count            int    // of Verified, Missing, TicksMissed and of batches
	Text             string // more, for people
}

// String returns the event on one line, without its time.
func (e Event) String() string {
	s := e.Kind.String()
	if e.Job != "" {
		s = "job " + e.Job + " " + s
	}
	if e.Schedule != "" {
		s += fmt.Sprintf(" schedule %q", e.Schedule)
	}
	if e.Batch != "" {
		s += " batch " + e.Batch
	}
	if e.Queue != "" {
		s += fmt.Sprintf(" queue %q", e.Queue)
	}
	if e.Task != "" {
		s += fmt.Sprintf(" task %q", e.Task)
	}
	if e.Attempt != 0 {
		s += fmt.Sprintf(" attempt %d", e.Attempt)
	}
	if e.Count != 0 {
		s += fmt.Sprintf(" %d", e.Count)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}
