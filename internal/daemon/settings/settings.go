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
	// Path is the configuration file; empty for none.
	Path string
	// Node is the name of this daemon in the records of attempts.
	Node string
	// Grace is how long running tasks may continue when the daemon stops.
	Grace  time.Duration
	HTTP   HTTP
	Probes Probes
	Lambda Lambda
	Log    Log
	Traces Traces
	// Dashboard enables the dashboard at the root of the API.
	Dashboard bool
	// Queue is complete except for its Logger. Its Store is made from Store, and may
	// hold secrets: log Store instead.
	Queue queue.Config
	Store Store
	// Budget bounds the workers of all pools together; nil is no bound. Its Logger is
	// not set.
	Budget *process.BudgetConfig
	Pools  map[string]Pool
	// PoolsGiven reports that the file has a mapping "pools", even if empty.
	PoolsGiven bool
	// Schedules has the schedules of the configuration, by name. SchedulesGiven
	// reports that there is a mapping of schedules, even if empty: then other
	// schedules from the configuration are removed.
	Schedules      map[string]job.Schedule
	SchedulesGiven bool
}

// HTTP configures how the API is served.
type HTTP struct {
	// Listen is "host:port".
	Listen string
	// Cert and Key are the files of a TLS certificate; they are read again when they
	// change.
	Cert, Key string
	// Tokens is the file with the tokens of callers. Empty requires no token, which
	// is allowed only on a loopback address.
	Tokens string
	// Hosts are host names, besides those of loopback, under which the API may be
	// called.
	Hosts []string
	// MaxBody is the largest body of a request, and MaxInflight the largest sum of
	// all bodies at a time, in bytes.
	MaxBody, MaxInflight int64
	// MaxConnections is the maximum number of connections at a time.
	MaxConnections int
	// MaxStreams is the maximum number of event streams at a time, and
	// MaxClientStreams that of one client; 0 is half of MaxConnections or MaxStreams,
	// respectively.
	MaxStreams, MaxClientStreams int
	// Rate is the maximum number of requests of one client per second; 0 is no limit.
	Rate float64
	// MaxWait bounds how long a request waits for the end of a job.
	MaxWait time.Duration
}

// Probes configures where else /livez, /readyz and /metrics are served.
type Probes struct {
	// Listen is "host:port"; empty serves them with the API only.
	Listen string
}

// Lambda configures the Lambda front, through which AWS SDKs invoke pools as functions.
type Lambda struct {
	// Listen is "host:port"; empty for no front.
	Listen string
	// Keys is the file with the access keys of callers. Empty requires no signature,
	// which is allowed only on a loopback address.
	Keys string
	// Account and Region are those of the functions; empty accepts all.
	Account, Region string
}

// Log configures the log, on standard error.
type Log struct {
	Level slog.Level
	// JSON logs one JSON object per line instead of text.
	JSON bool
}

// Pool is a pool of workers, and the queue of the same name.
type Pool struct {
	// Process is complete except for Name, Budget and Logger. An empty Command means
	// that other nodes run the queue's jobs.
	Process process.Config
	// Task is the task of jobs that name none.
	Task string
	// Retry is the policy of jobs that have none of their own.
	Retry job.Retry
	// Bury is the burial task of jobs that name none.
	Bury string
	// Ephemeral allows tasks that bypass the queue.
	Ephemeral bool
	// EventAge is how long an event of the Lambda front may take to end; negative for
	// no limit.
	EventAge time.Duration
	// Jobs is the maximum number of the queue's jobs in hand at a time; 0 is as many
	// as the workers can take.
	Jobs int
	// Strict always starts jobs of a higher priority first.
	Strict bool
	// Groups are the limits of each group that has none of its own. GroupMeta is the
	// key of a job's metadata that names its group, for jobs that name none.
	Groups    job.GroupLimits
	GroupMeta string
	// Helpers is the maximum number of workers beyond Process.Max, for tasks that
	// wait for other tasks that they submitted.
	Helpers int
}

// String returns a short description of s, without secrets.
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

// GoString is like String.
func (s Settings) GoString() string { return s.String() }

// LogValue is like String.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }
