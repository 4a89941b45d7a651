package job

import (
	"time"
)

// Counts is how many jobs a queue has.
type Counts struct {
	// Waiting jobs can start. Taken jobs run, or wait a short time for another attempt
	// or for their outcome to be stored.
	Waiting, Taken int64
	// Dead jobs have failed for good and are kept.
	Dead int64
	// Oldest is when the oldest job was stored; zero if there is none.
	Oldest time.Time
	Paused bool
}

// Depth is how many jobs of one priority a queue has.
type Depth struct {
	Queue    string
	Priority Priority
	// Waiting jobs can start. Taken jobs are in the hands of nodes, or wait a short
	// time for another attempt. Scheduled jobs are not counted.
	Waiting, Taken int
	// Held is how many of Waiting only the limits of their groups keep from starting,
	// as far as this node knows.
	Held int
	// Oldest is when the job that has been here longest was stored; zero for none.
	Oldest time.Time
	Paused bool
}
