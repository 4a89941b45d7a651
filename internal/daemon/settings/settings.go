// Package settings reads the configuration of the daemon: bullpen.yaml, the
// environment and flags.
package settings

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
)

// Settings is the configuration of a daemon, with all defaults filled in.
type Settings struct {
	// Path is the file that it was read from, empty for none.
	Path string
	// Node names this daemon in the records of attempts.
	Node string
	// Grace is how long what runs may go on when the daemon stops.
	Grace  time.Duration
	HTTP   HTTP
	Probes Probes
	Log    Log
	Traces Traces
	// Dashboard serves the page at the root of the API.
	Dashboard bool
	// Queue is complete but for its Logger. Its Store is made from Store, and may
	// hold secrets: log Store instead.
	Queue queue.Config
	Store Store
	// Budget bounds the workers of all pools together; nil bounds nothing. Its
	// Logger is not set.
	Budget *process.BudgetConfig
	Pools  map[string]Pool
	// PoolsGiven tells that the file has a mapping under "pools", be it empty.
	PoolsGiven bool
	// Schedules are what the configuration has of them, by name; SchedulesGiven tells
	// that it has a mapping of them, be it empty: then others of its origin are removed.
	Schedules      map[string]job.Schedule
	SchedulesGiven bool
}

// HTTP says how the API is served.
type HTTP struct {
	// Listen is "host:port".
	Listen string
	// Cert and Key are files of a certificate for TLS; they are read again when
	// they change.
	Cert, Key string
	// Tokens is the file with the tokens that callers must have; empty asks for
	// none, which only a loopback address allows.
	Tokens string
	// Hosts are names, besides those of loopback, by which the API may be called.
	Hosts []string
	// MaxBody is the largest body of a request, MaxInflight all bodies at a time, in
	// bytes.
	MaxBody, MaxInflight int64
	// MaxConnections is the most connections at a time.
	MaxConnections int
	// MaxStreams is the most event streams at a time, MaxClientStreams the most of one
	// client; 0 is half of the number before.
	MaxStreams, MaxClientStreams int
	// Rate is the most requests of one client a second; 0 is no bound.
	Rate float64
	// MaxWait is the longest that a request waits for the end of a job.
	MaxWait time.Duration
}

// Probes says where /livez, /readyz and /metrics are served besides the API.
type Probes struct {
	// Listen is "host:port", empty for nowhere but the API.
	Listen string
}

// Log says what is logged, to standard error.
type Log struct {
	Level slog.Level
	// JSON writes an object a line instead of text.
	JSON bool
}

// Pool is a pool of workers, and the queue of the same name.
type Pool struct {
	// Process is complete but for Name, Budget and Logger. An empty Command means
	// that the queue is worked off elsewhere.
	Process process.Config
	// Task is the name of tasks that have none of their own.
	Task string
	// Retry is the policy of jobs that have none of their own.
	Retry job.Retry
	// Bury is the task that is told of dead jobs which name none of their own.
	Bury string
	// Ephemeral allows tasks that bypass the queue.
	Ephemeral bool
	// Jobs is the most jobs of the queue in hand at a time; 0 is what the workers
	// can take.
	Jobs int
	// Strict makes jobs of a higher priority go first always.
	Strict bool
	// Groups are the limits of each group of jobs that has none of its own, and
	// GroupMeta the key of a job's metadata that names its group where the job names
	// none.
	Groups    job.GroupLimits
	GroupMeta string
	// Helpers is the most workers beyond Process.Max while tasks wait for others
	// that they have submitted.
	Helpers int
}

// String says in short what s is. It shows no secret.
func (s Settings) String() string {
	from := s.Path
	if from == "" {
		from = "no file"
	}
	pools := "none"
	if len(s.Pools) > 0 {
		pools = strings.Join(slices.Sorted(maps.Keys(s.Pools)), ", ")
	}
	return fmt.Sprintf("settings of %s: node %s, API at %s, jobs in %v, pools: %s", from, s.Node, s.HTTP.Listen, s.Store, pools)
}

// GoString is as String.
func (s Settings) GoString() string { return s.String() }

// LogValue is as String.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }
