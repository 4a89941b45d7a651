package job

import (
	"time"
)

// Keep bounds what a queue stores. Jobs are never dropped to stay within a bound: the
// next one is refused. Of everything else the oldest is dropped.
type Keep struct {
	// Jobs bounds the bytes of jobs that have not ended. Default 4 GiB.
	Jobs int64
	// Outcomes, OutcomeCount and OutcomeAge bound what is kept of results,
	// progress and log lines. Default 1 GiB, 1 000 000 and 24 h. If an outcome is
	// dropped while its job may still be handed out again, that job runs again: keep
	// the outcomes of at least two leases.
	Outcomes, OutcomeCount int64
	OutcomeAge             time.Duration
	// Dead and DeadAge bound what is kept of dead jobs. Default 1 GiB and 30 days.
	Dead    int64
	DeadAge time.Duration
	// Lines is how many of the last log lines of a job are kept, of at most
	// LineBytes in all. Default 50 and 8 KiB; -1 keeps none.
	Lines, LineBytes int
	// Payloads is the largest job, payload and metadata together, in bytes, that is kept
	// with its outcome when it is Done or Canceled, within Outcomes and OutcomeAge, for
	// queue.Queue.Payload and queue.Queue.Retry. Default 8 KiB; -1 keeps none. Dead jobs
	// are kept whole.
	Payloads int
}
