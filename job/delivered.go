package job

import "time"

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
	// (Job.Bury); Error is on one line. queue.Queue.GetDead tells the rest.
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
