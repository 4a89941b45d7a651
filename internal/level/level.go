// Package level is what the daemon and `bullpen map` need of a pool of workers, whatever the
// level of isolation at which it runs tasks: a [Pool]. [New] is the only place that chooses
// the level; each level has a file here that makes its pools a Pool.
package level

import (
	"context"
	"iter"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// New returns a new pool of workers. Its configuration is that of worker processes, whatever
// the level: other levels have no use for some of its fields.
func New(c process.Config) (Pool, error) { return newProcesses(c) }

// Pool is an elastic pool of workers of one kind, at any level. All methods are safe for
// concurrent use. Fields of Config, Stats, Worker and Event that mean nothing at a level are
// zero.
type Pool interface {
	bullpen.RoomNotifier
	bullpen.Checker
	// Config returns what is configured, with defaults filled in.
	Config() Config
	// Resize changes the bounds of the number of workers.
	Resize(minimum, maximum int) error
	// Ready starts workers until n of them, at most the maximum, are ready, and waits for
	// them.
	Ready(ctx context.Context, n int) error
	// Reload replaces all workers by new ones, and waits for that.
	Reload(ctx context.Context) error
	// Recycle replaces one worker, and does not wait. It returns ErrNoWorker,
	// bullpen.ErrClosed, or errors.ErrUnsupported where workers run one task each.
	Recycle(worker string) error
	// Stats returns a snapshot.
	Stats() Stats
	// Workers returns the current workers, the oldest first.
	Workers() []Worker
	// Events subscribes to the events that follow. The sequence ends with the pool, and the
	// subscription with the sequence, which can be used once. buffer is the number of events
	// held for a slow reader, who loses others; 0 means a default.
	Events(buffer int) iter.Seq[Event]
}

// ErrNoWorker means that the pool has no worker of that name, or no longer has it.
var ErrNoWorker = process.ErrNoWorker

// Config is the configuration of a Pool.
type Config struct {
	// Program is what the workers run, and Protocol how the host talks to them.
	Program, Protocol string
	Min, Max          int
	// StartTimeout bounds the time for a worker to become ready.
	StartTimeout time.Duration
	// Budgeted reports that a budget, which the pool shares with others, keeps room for Min
	// workers.
	Budgeted bool
}

// Stats is a snapshot of a Pool. The counts are as in [process.Stats].
type Stats struct {
	State                           string
	Starting, Idle, Busy, Leaving   int
	Queued, Blocked, InHand         int
	Accepted, NeverStarted, Refused uint64
	Started, Stopped, FailedStarts  uint64
	Outcomes                        map[bullpen.Outcome]uint64
	Deaths                          map[string]uint64 // by cause
	QueueTime, RunTime, StartTime   bullpen.Histogram
}

// Worker describes a worker. The fields are as in [process.WorkerInfo].
type Worker struct {
	Name, State            string
	PID                    int
	Served, InHand, Window int
	Age, Idle, TaskAge     time.Duration
	Memory                 int64
	TaskID, TaskName       string
	Recycling              bool
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Started: a worker was started.
	Started EventKind = iota + 1
	// Ready: the worker can take tasks.
	Ready
	// Ended: the worker has ended, as planned or not; Cause is the reason.
	Ended
	// StartFailed: the worker did not become ready; Err is the reason.
	StartFailed
	// Mended: a worker has started after so many failures that tasks failed at once.
	Mended
)

// Event is something that happened to a worker.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Worker string
	PID    int
	Cause  string
	// Text has details for people, and Err is the cause as an error, nil if there is none.
	Text string
	Err  error
}
