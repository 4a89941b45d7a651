package job

import "time"

// Delivered is what the queue tells a handler about the attempt that it runs.
type Delivered struct {
	// Attempt is the number of this attempt, from 1, among those that started.
	Attempt int
	// Redelivered reports whether an earlier attempt may have run to any point: its
	// node or its worker died.
	Redelivered bool
	// Parent is the id of the job that this one retries, compensates or buries.
	Parent string
	// Undoes is the outcome of Parent, if this job compensates it; Task is the name of
	// its task.
	Undoes, Task string
	// Since is when the job began to wait for this attempt: when it was enqueued, or
	// the attempt before ended. Due is the time that it had to wait for, zero for none.
	// Only the executor that the queue gave the task to has these two.
	Since, Due time.Time
	// Reason, Outcome and Error say why Parent is dead, if this job buries it
	// (Job.Bury). Error is one line; queue.Queue.GetDead has the rest.
	Reason         Reason
	Outcome, Error string
	// Schedule is the name of the schedule that enqueued the job, Tick the time that
	// the job is for. That may be long ago, for a missed tick or a retry.
	Schedule string
	Tick     time.Time
	// Chain is the id of the first job of the chain that this one belongs to, Link its
	// number there, from 1. They are empty and 0 if it is in no chain.
	Chain string
	Link  int
	// Batch is the id of the batch that this job is a member of, Index its number
	// there; or of the batch that it is a callback of, with Index -1.
	Batch string
	Index int
}
