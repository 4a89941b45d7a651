package job

import (
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Attempt is one handing of a job to an executor.
type Attempt struct {
	// Number counts the attempts of the job that started, from 1.
	Number int
	// Outcome is how it ended; Lost where a node died with it.
	Outcome bullpen.Outcome
	// Ended is when.
	Ended time.Time
	// Ran is how long the handler ran, where that is known.
	Ran time.Duration
	// Node and Worker say who had it.
	Node, Worker string
	// Error says why it failed, in one line; empty for OK.
	Error string
	// Signal and ExitCode are of a worker that died; ExitCode is -1 otherwise.
	Signal   string
	ExitCode int
	// PeakMemory is the worker's, in bytes, where it is known.
	PeakMemory int64
}
