// Package daemon implements `bullpen serve`: pools of worker processes that take jobs
// from queues, behind an HTTP API, under one configuration. Its parts are in packages
// of their own (settings, api, access, live, logs); this package connects, starts,
// reloads and ends them.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/internal/daemon/trace"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
)

// Config configures a daemon. Only Settings is required.
type Config struct {
	// Settings are the settings that settings.Load returned.
	Settings *settings.Settings
	// Load reads the configuration again, for a reload; nil disables reloads.
	Load func() (*settings.Settings, error)
	// Workers returns the workers of a pool by its settings; nil means level.New.
	Workers func(process.Config) (level.Pool, error)
	// Logger is the log; nil logs nothing.
	Logger *slog.Logger
	// LogLost returns how many lines the logger has dropped; nil means none.
	LogLost func() uint64
	// Version is the version of the program.
	Version string
}

// OpenError is the error of a queue or an address that the daemon could not open.
type OpenError struct {
	// What names it, for people.
	What string
	Err  error
}

// Error returns what could not be opened, and why.
func (e *OpenError) Error() string { return e.What + " cannot be opened: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// ErrAborted is the error of Run if Close ended the daemon before running tasks had
// ended.
var ErrAborted = errors.New("the daemon was aborted")

// errStopped is the cause when a stop was requested.
var errStopped = errors.New("it was asked to stop")

// Daemon is a node: queues, pools, and the API in front of them. All methods are safe
// for concurrent use.
type Daemon struct {
	log     *slog.Logger
	load    func() (*settings.Settings, error)
	logLost func() uint64
	// newWorkers returns the workers of a pool.
	newWorkers func(process.Config) (level.Pool, error)
	version    string
	started    time.Time
	state      lifecycle.Machine[State]

	// Parts with locks of their own:
	access  *access.Control
	keys    *sigv4.Keys // of the callers of the Lambda front; nil for none
	queue   *queue.Queue
	budget  *process.Budget // nil for none
	hub     *live.Hub
	history *history.History // past states of the pools
	tracer  *trace.Tracer    // nil for no traces
	// requests are the metrics of the API's requests.
	requests *requests
	// exported has the metrics of all pools' workers for Prometheus.
	exported level.Metrics
	runs     runs
	health   health

	// What listens:
	opening atomic.Bool // the queue is being opened
	front   *front
	lambda  *front  // nil for none
	probes  *probes // nil for none

	// The stages of its life:
	stopping  chan struct{} // closed by Stop
	stopOnce  sync.Once
	aborted   chan struct{} // closed by Close
	abortOnce sync.Once
	pooled    chan struct{} // closed when all pools have ended: then waiting requests are answered
	ready     chan struct{} // closed when the daemon is ready for the first time
	readyOnce sync.Once
	failed    chan error // errors of pools that cannot take jobs; capacity 1

	// A reload:
	turn      chan struct{}  // capacity 1: full during a reload
	reloading chan struct{}  // capacity 1: full while a new configuration is put into effect
	retiring  sync.WaitGroup // for generations that a reload has replaced
	reloads   reloads
	// planned signals that the schedules of the configuration must be stored again;
	// capacity 1. planning is held while they are stored.
	planned  chan struct{}
	planning sync.Mutex

	// What a reload replaces:
	mu       sync.Mutex
	settings *settings.Settings // guarded by mu
	pools    map[string]*pool   // guarded by mu
	taking   bool               // pools take jobs; guarded by mu
	// scheduled reports that the schedules of the configuration were stored since the
	// start; guarded by mu.
	scheduled bool
}

// reloads counts reloads of the configuration.
type reloads struct {
	good, bad atomic.Uint64
	last      atomic.Int64           // time of the last successful one, in Unix seconds
	fault     atomic.Pointer[string] // error of the last one; nil if it succeeded
}

// New opens addresses, queue and pools. The daemon serves once Run is called; it must
// be run or closed. The error is an *OpenError, or has all faults of the settings.
func New(ctx context.Context, c Config) (*Daemon, error) {
	if c.Settings == nil {
		return nil, errors.New("daemon: Settings are nil: load them with settings.Load")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Workers == nil {
		c.Workers = level.New
	}
	if c.LogLost == nil {
		c.LogLost = func() uint64 { return 0 }
	}
	d := &Daemon{
		log: c.Logger, load: c.Load, logLost: c.LogLost, newWorkers: c.Workers, version: c.Version, started: time.Now(), settings: c.Settings,
		stopping: make(chan struct{}), aborted: make(chan struct{}), pooled: make(chan struct{}), ready: make(chan struct{}),
		failed: make(chan error, 1), turn: make(chan struct{}, 1), reloading: make(chan struct{}, 1), pools: map[string]*pool{},
		planned: make(chan struct{}, 1),
	}
	d.state.Init(&states, Starting)
	d.reloads.last.Store(d.started.Unix())
	if err := d.open(ctx); err != nil {
		d.abandon() //nolint:contextcheck // it aborts, and waits for nobody
		return nil, err
	}
	return d, nil
}

// Run serves until ctx ends or Stop is called, finishes running tasks, and returns
// nil; after Close it returns ErrAborted. Any other error names the part of the
// daemon that failed. Run may be called only once.
func (d *Daemon) Run(ctx context.Context) error {
	if d.state.Move(Starting, Serving) != nil {
		return d.unserved() //nolint:contextcheck // nothing runs, and nobody is waited for
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	context.AfterFunc(ctx, d.Stop)
	go func() { // ends with Run at the latest, by cancel
		select {
		case <-d.stopping:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	actors, err := d.actors()
	if err != nil {
		d.abandon() //nolint:contextcheck // it aborts, and waits for nobody
		return err
	}
	err = runActors(ctx, d.log, actors)
	_, _ = d.state.MoveAny(Stopping) // not if an actor failed and ended the others
	if _, closed := d.state.MoveAny(Closed); closed != nil {
		err = errors.Join(err, closed)
	}
	if d.isAborted() {
		return errors.Join(ErrAborted, err)
	}
	return err
}

// unserved closes a daemon that was stopped before it served.
func (d *Daemon) unserved() error {
	aborted := d.isAborted()
	d.abandon()
	if aborted {
		return ErrAborted
	}
	return nil
}

func (d *Daemon) isAborted() bool {
	select {
	case <-d.aborted:
		return true
	default:
		return false
	}
}

// Stop makes Run end. The daemon takes no more jobs, returns jobs that have not
// started to their queue, and gives running ones the grace to finish. Stop does not
// wait.
func (d *Daemon) Stop() {
	d.stopOnce.Do(func() {
		_, _ = d.state.MoveAny(Stopping) // Close may have come first
		close(d.stopping)
	})
}

// Close makes Run end soon: it cancels running jobs and returns them to their queue.
// Close does not wait.
func (d *Daemon) Close() {
	d.abortOnce.Do(func() {
		_, _ = d.state.MoveAny(Closing) // Run may be over
		close(d.aborted)
	})
	d.Stop()
}

// Addr returns the address of the API.
func (d *Daemon) Addr() net.Addr { return d.front.listener.Addr() }

// ProbesAddr returns the address of the probes; nil if they have none of their own.
func (d *Daemon) ProbesAddr() net.Addr {
	if d.probes == nil {
		return nil
	}
	return d.probes.listener.Addr()
}

// Ready returns a channel that is closed when the daemon is ready for the first time.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// actors returns the parts of the daemon, in the order in which they end.
func (d *Daemon) actors() ([]actor, error) {
	serve, err := d.serveAPI()
	if err != nil {
		return nil, err
	}
	all := []actor{
		{"the health watcher", d.watchHealth},
		{"the history", d.keepHistory},
		{"the store", d.watchStore},
		{"the schedules", d.runSchedules},
		{"the pools", d.runPools},
		{"the API", serve},
	}
	if d.lambda != nil {
		d.serveLambda()
		all = append(all, actor{"the Lambda front", d.lambda.run})
	}
	all = append(all, actor{"the queue", d.closeQueue})
	if d.tracer != nil {
		all = append(all, actor{"the traces", d.closeTraces})
	}
	if d.probes != nil {
		all = append(all, actor{"the probes", d.probes.run})
	}
	return all, nil
}

// watchStore ends when the store of the queue fails.
func (d *Daemon) watchStore(ctx context.Context) error {
	select {
	case <-d.queue.Failed():
		return fmt.Errorf("no more jobs can be stored: %w", d.queue.Err())
	case <-ctx.Done():
		return nil
	}
}

// closeQueue waits for the end of ctx and closes the queue.
func (d *Daemon) closeQueue(ctx context.Context) error {
	<-ctx.Done()
	return d.queue.Close() //nolint:contextcheck // its turn has come because ctx has ended
}

// lastTraces bounds the time for sending the last traces.
const lastTraces = 2 * time.Second

// closeTraces waits for the end of ctx and sends the last traces, within lastTraces
// and the grace.
func (d *Daemon) closeTraces(ctx context.Context) error {
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(lastTraces, d.config().Grace))
	defer cancel()
	stop := until(d.aborted, cancel)
	defer stop()
	d.tracer.Close(end)
	return nil
}

// config returns the settings in force.
func (d *Daemon) config() *settings.Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}
