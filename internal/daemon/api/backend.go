// Package api is the HTTP API of the daemon, version 1, as docs/openapi.yaml has it.
package api

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// The errors of a Backend.
var (
	// ErrNoPool: the configuration has no pool of that name.
	ErrNoPool = errors.New("no such pool")
	// ErrNotEphemeral: the pool accepts durable jobs only.
	ErrNotEphemeral = errors.New("the pool does not accept ephemeral tasks")
	// ErrNested: the task waits for its own pool and would deadlock it.
	ErrNested = errors.New("the task would wait for itself")
	// ErrBusyID: a task with that id is already running.
	ErrBusyID = errors.New("a task with this id is already running")
	// ErrQueueOnly: the pool has no workers at this daemon.
	ErrQueueOnly = errors.New("the pool has no workers here")
	// ErrNoWorker: the pool has no worker of that name, or no longer has it.
	ErrNoWorker = errors.New("no such worker")
)

// Backend is the daemon as the API sees it. All methods are safe for concurrent use.
type Backend interface {
	// Queue returns the queue that keeps the jobs.
	Queue() *queue.Queue
	// Pools returns the names of the pools, sorted.
	Pools() []string
	// Pool describes a pool. The error is ErrNoPool.
	Pool(ctx context.Context, name string) (Pool, error)
	// Complete fills in what a job leaves to its pool: the name of its task and the
	// retry policy. The error is ErrNoPool, or bullpen.ErrClosed while the daemon
	// stops.
	Complete(pool string, j job.Job) (job.Job, error)
	// Run runs an ephemeral task on a pool's workers and waits for its end. If t.ID
	// is empty Run generates one; it returns the id. Errors are those of an executor,
	// ErrNoPool, ErrNotEphemeral, ErrQueueOnly and ErrBusyID.
	Run(ctx context.Context, pool string, t bullpen.Task) (id string, r bullpen.Result, err error)
	// CancelRun cancels an ephemeral task that runs here, and reports whether there
	// was one.
	CancelRun(id string) bool
	// Waits records that the task parent waits for work that it submits: its pool
	// gets an extra worker until done is called. It has no effect if parent does not
	// run here. The error is ErrNested, with advice.
	Waits(parent string) (done func(), err error)
	// Follow returns a feed of the events of a job that runs here, beginning with the
	// kept events after the position after. It returns nil if the job does not run here.
	Follow(id string, after live.Position) *live.Feed
	// Overview returns a snapshot of all pools, sorted by name.
	Overview(ctx context.Context) (Overview, error)
	// History returns the points of a pool up to now, or of all pools together if
	// pool is empty. The error is ErrNoPool.
	History(pool string, span time.Duration) (history.Series, error)
	// Workers returns the workers of a pool, oldest first. The error is ErrNoPool.
	Workers(pool string) ([]level.Worker, error)
	// Recycle replaces a worker of a pool once its tasks in hand have ended. Errors
	// are ErrNoPool, ErrQueueOnly, ErrNoWorker, errors.ErrUnsupported if each task
	// has its own process, and bullpen.ErrClosed.
	Recycle(pool, worker string) error
	// Scale changes the bounds of a pool; a negative number leaves a bound as it is.
	Scale(pool string, minimum, maximum int) error
	// ReloadPool replaces the workers of a pool.
	ReloadPool(ctx context.Context, pool string) error
	// Reload reads the configuration again and returns the keys that changed.
	Reload(ctx context.Context) (changed []string, err error)
	// Status returns the status of the daemon, without its store and queue.
	Status() Status
	// Stopping is closed when the daemon stops and its pools have ended, so that
	// running tasks had time to finish. Requests that still wait are then answered.
	Stopping() <-chan struct{}
}

// Pool describes a pool.
type Pool struct {
	Name, Task string
	Ephemeral  bool
	// Config and Stats are those of the workers. Without workers there is only State.
	// Max is without helpers.
	level.Config
	level.Stats

	Helpers int
	// Error is why workers fail to start; empty if they start.
	Error string
}

// Overview is a snapshot of all pools.
type Overview struct {
	Pools []PoolNow
	// Total has the sums over all pools, without a name and a state.
	Total PoolNow
	// Scheduled is the number of jobs in all queues that wait for their start time.
	Scheduled int
}

// PoolNow is a snapshot of a pool.
type PoolNow struct {
	Name, State string
	Paused      bool
	Error       string
	// Point has the numbers of waiting and running tasks, and rates and durations
	// over about the last ten seconds.
	history.Point
	// Taken is the number of jobs that nodes have in hand, Dead the number of dead
	// jobs that are kept.
	Taken, Dead int
	// Oldest is when the oldest job in the queue was stored.
	Oldest       time.Time
	Workers, Max int
}

// Status describes the daemon.
type Status struct {
	Version, Node   string
	Started         time.Time
	Ready, Live     bool
	Stopping        bool
	LogLinesDropped uint64
	// ReloadFailed has the faults for which the last reload of the configuration was
	// refused, one per line; empty if it was not refused.
	ReloadFailed string
}
