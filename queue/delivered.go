package queue

import (
	"strconv"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// The keys of Meta that the queue sets.
const (
	metaAttempt     = "bullpen.attempt"
	metaRedelivered = "bullpen.redelivered"
	metaParent      = "bullpen.parent"
	metaUndoes      = "bullpen.undoes"
	metaTask        = "bullpen.task"
	metaReason      = "bullpen.reason"
	metaOutcome     = "bullpen.outcome"
	metaError       = "bullpen.error"
	metaSchedule    = "bullpen.schedule"
	metaTick        = "bullpen.tick"
	metaChain       = "bullpen.chain"
	metaLink        = "bullpen.link"
	metaBatch       = "bullpen.batch"
	metaIndex       = "bullpen.index"
)

// Delivered is what the queue tells a handler of the attempt it runs.
type Delivered struct {
	// Attempt counts those of this job that started, from 1.
	Attempt int
	// Redelivered says that an earlier attempt may have run to any point without
	// anybody having heard of its end: its node or its worker died.
	Redelivered bool
	// Parent is the id of the job that this one tries again, compensates, or is told
	// of.
	Parent string
	// Undoes is the outcome of Parent, for a compensation. Task is its name.
	Undoes, Task string
	// Since is when the job began to wait for this attempt: when it was enqueued, or
	// the attempt before ended; Due is the time that it had to wait for, zero for
	// none. Both are known only to the executor that the queue gave the task to.
	Since, Due time.Time
	// Reason, Outcome and Error are why Parent is dead, for a job that is told of it
	// (Job.Bury); Error is on one line. [Queue.GetDead] tells the rest.
	Reason         Reason
	Outcome, Error string
	// Schedule is the name of the schedule that the job is of, and Tick the moment
	// it is for, which may be long ago: a tick that was missed, or a retry.
	Schedule string
	Tick     time.Time
	// Chain is the id of the first job of the chain that this one belongs to, and
	// Link its number there, from 1. Empty and 0: it is in no chain.
	Chain string
	Link  int
	// Batch is the id of the batch that this job is a member of, with its Index
	// there, or of which it is a callback, with Index -1.
	Batch string
	Index int
}

// AttemptOf tells a handler which attempt of its job it runs. Of a task that
// comes from no queue it says: the first one.
func AttemptOf(t bullpen.Task) Delivered {
	d := Delivered{
		Attempt: 1, Redelivered: t.Meta[metaRedelivered] != "", Parent: t.Meta[metaParent],
		Undoes: t.Meta[metaUndoes], Task: t.Meta[metaTask], Chain: t.Meta[metaChain], Batch: t.Meta[metaBatch],
		Reason: Reason(t.Meta[metaReason]), Outcome: t.Meta[metaOutcome], Error: t.Meta[metaError],
		Schedule: t.Meta[metaSchedule],
	}
	if at, err := time.Parse(time.RFC3339Nano, t.Meta[metaTick]); err == nil {
		d.Tick = at
	}
	if n, err := strconv.Atoi(t.Meta[metaAttempt]); err == nil && n > 0 {
		d.Attempt = n
	}
	if o, ok := t.Observer.(*observed); ok {
		d.Since, d.Due = o.since, o.due
	}
	if n, err := strconv.Atoi(t.Meta[metaLink]); err == nil && n > 0 {
		d.Link = n
	}
	if d.Batch != "" {
		d.Index = -1
	}
	if n, err := strconv.Atoi(t.Meta[metaIndex]); err == nil && n >= 0 {
		d.Index = n
	}
	return d
}
