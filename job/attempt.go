package job

import (
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Attempt is one attempt to run a job.
type Attempt struct {
	// Number is its number among the attempts that started, from 1.
	Number int
	// Outcome is how it ended; Lost if its node died.
	Outcome bullpen.Outcome
	// Ended is when.
	Ended time.Time
	// Ran is how long the handler ran, if that is known.
	Ran time.Duration
	// Node and Worker ran it.
	Node, Worker string
	// Error is why it failed, on one line; empty for OK.
	Error string
	// Signal and ExitCode are those of a worker that died; ExitCode is -1 otherwise.
	Signal   string
	ExitCode int
	// PeakMemory is the worker's peak memory in bytes, if that is known.
	PeakMemory int64
}
