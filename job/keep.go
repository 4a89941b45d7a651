package job

import (
	"time"
)

// Keep bounds what a queue stores. Jobs are never dropped to keep a bound: the
// next one is refused. Of all else the oldest goes first.
type Keep struct {
	// Jobs is the most bytes of jobs that are not done. Default 4 GiB.
	Jobs int64
	// Outcomes, OutcomeCount and OutcomeAge bound what is kept of results,
	// progress and log lines. Default 1 GiB, 1 000 000 and 24 h. An embedded
	// store holds about 300 bytes of memory for each outcome it keeps. An outcome
	// that goes while its job may still be handed out again lets that job run
	// again: keep those of two leases.
	Outcomes, OutcomeCount int64
	OutcomeAge             time.Duration
	// Dead and DeadAge bound what is kept of dead jobs. Default 1 GiB and 30 days.
	Dead    int64
	DeadAge time.Duration
	// Lines is how many of the last log lines of a job are kept, of at most
	// LineBytes in all. Default 50 and 8 KiB; -1 keeps none.
	Lines, LineBytes int
	// Payloads is the most bytes of a job, payload and metadata together, that is kept
	// with its outcome when it is Done or Canceled, within Outcomes and OutcomeAge: then
	// queue.Queue.Payload and queue.Queue.Retry have it. Default 8 KiB; -1 keeps none. Dead
	// jobs are kept whole.
	Payloads int
}
