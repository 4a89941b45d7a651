package job

import (
	"time"
)

// Counts is how many jobs of a queue there are.
type Counts struct {
	// Waiting jobs can start; Taken ones run, or wait a short time for another
	// attempt, or for their outcome to reach the disk.
	Waiting, Taken int64
	// Dead jobs failed for good and are kept.
	Dead int64
	// Oldest is when the job that has been here longest was stored; zero for none.
	Oldest time.Time
	Paused bool
}

// Depth is how much a queue has.
type Depth struct {
	Queue    string
	Priority Priority
	// Waiting jobs can start; Taken ones are in the hands of nodes or wait a
	// short time for another attempt. Scheduled jobs are counted nowhere here.
	Waiting, Taken int
	// Held are those of Waiting which only the limits of their groups keep from
	// starting, as far as this node knows.
	Held int
	// Oldest is when the job that has been here longest was stored; zero for none.
	Oldest time.Time
	Paused bool
}
