// Package api is the HTTP API of the daemon, version 1, as docs/openapi.yaml has it.
package api

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// The errors of a Backend.
var (
	// ErrNoPool says that the configuration has no pool of that name.
	ErrNoPool = errors.New("no such pool")
	// ErrNotEphemeral says that the pool takes durable jobs only.
	ErrNotEphemeral = errors.New("the pool takes no ephemeral tasks")
	// ErrNested says that a task which waits for its own pool would hang it.
	ErrNested = errors.New("the task would wait for itself")
	// ErrBusyID says that a task with that id runs already.
	ErrBusyID = errors.New("a task with this id runs already")
	// ErrQueueOnly says that the pool has no workers here.
	ErrQueueOnly = errors.New("the pool has no workers here")
	// ErrNoWorker says that the pool has no worker of that name, or no more.
	ErrNoWorker = errors.New("no such worker")
)

// Backend is what the API asks of the daemon. All methods are safe for concurrent
// use.
type Backend interface {
	// Queue is where jobs are kept.
	Queue() *queue.Queue
	// Pools returns the names of the pools, sorted.
	Pools() []string
	// Pool describes a pool. The error is ErrNoPool.
	Pool(ctx context.Context, name string) (Pool, error)
	// Complete fills in what a job leaves to its pool: the task's name, the policy
	// of retries. The error is ErrNoPool, or bullpen.ErrClosed while the daemon
	// stops.
	Complete(pool string, j job.Job) (job.Job, error)
	// Run runs an ephemeral task on a pool's workers and waits for its end. An empty
	// t.ID is filled in before; id tells it. Errors are those of an executor,
	// ErrNoPool, ErrNotEphemeral, ErrQueueOnly and ErrBusyID.
	Run(ctx context.Context, pool string, t bullpen.Task) (id string, r bullpen.Result, err error)
	// CancelRun cancels an ephemeral task that runs here, and tells whether there
	// was one.
	CancelRun(id string) bool
	// Waits says that the task parent waits for what it submits: its pool gets a
	// worker more until done is called. A parent that does not run here changes
	// nothing. The error is ErrNested, with what to do.
	Waits(parent string) (done func(), err error)
	// Follow gives the events of a job that runs here, those kept that lie behind
	// after first; nil when it does not run here.
	Follow(id string, after live.Place) *live.Feed
	// Overview tells what all pools look like now, by name.
	Overview(ctx context.Context) (Overview, error)
	// History gives the points of a pool up to now, of all pools for an empty name.
	// The error is ErrNoPool.
	History(pool string, span time.Duration) (history.Series, error)
	// Workers tells of the workers of a pool, the oldest first. The error is ErrNoPool.
	Workers(pool string) ([]Worker, error)
	// Recycle replaces a worker of a pool once what it has in hand has ended. Errors
	// are ErrNoPool, ErrQueueOnly, ErrNoWorker, errors.ErrUnsupported where each task
	// has a process of its own, and bullpen.ErrClosed.
	Recycle(pool, worker string) error
	// Scale changes the bounds of a pool; a negative number leaves one as it is.
	Scale(pool string, minimum, maximum int) error
	// ReloadPool replaces the workers of a pool.
	ReloadPool(ctx context.Context, pool string) error
	// Reload reads the configuration again and tells what has changed.
	Reload(ctx context.Context) (changed []string, err error)
	// Status tells how the daemon does, without its store and queue.
	Status() Status
	// Stopping is closed when the daemon stops and its pools have ended, so that
	// what ran has had its time: whoever still waits is to be answered.
	Stopping() <-chan struct{}
}

// Pool is what the daemon tells of a pool.
type Pool struct {
	Name, State, Protocol, Program, Task string
	Ephemeral                            bool
	Min, Max, Helpers                    int
	Starting, Idle, Busy, Leaving        int
	Queued, Blocked, InHand              int
	Accepted, NeverStarted, Refused      uint64
	Started, Stopped, FailedStarts       uint64
	Outcomes                             map[bullpen.Outcome]uint64
	Deaths                               map[string]uint64
	WaitP50, WaitP99, RunP50, RunP99     time.Duration
	StartP50, StartP99                   time.Duration
	// Error says why workers do not start, empty where they do.
	Error string
}

// Overview is what all pools look like at one time.
type Overview struct {
	Pools []PoolNow
	// Total has the sums of all, without a name and a state.
	Total PoolNow
	// Scheduled is how many jobs of all queues wait for their time.
	Scheduled int
}

// PoolNow is what a pool looks like at one time.
type PoolNow struct {
	Name, State string
	Paused      bool
	Error       string
	// Point has what is waiting and running, and rates and durations of the last ten
	// seconds or so.
	history.Point
	// Taken is how many jobs are in the hands of nodes, Dead how many have failed for
	// good and are kept.
	Taken, Dead int
	// Oldest is when the job was stored that has been there longest.
	Oldest       time.Time
	Workers, Max int
}

// Worker is what the daemon tells of one worker.
type Worker struct {
	Name, State            string
	PID                    int
	Served, InHand, Window int
	Age, Idle, TaskAge     time.Duration
	Memory                 int64
	TaskID, TaskName       string
	Recycling              bool
}

// Status is what the daemon tells of itself.
type Status struct {
	Version, Node   string
	Started         time.Time
	Ready, Live     bool
	Stopping        bool
	LogLinesDropped uint64
	// ReloadFailed has the faults for which the last reload of the configuration was
	// refused, a line each; empty where it was not.
	ReloadFailed string
}
