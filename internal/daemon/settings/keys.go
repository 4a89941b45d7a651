package settings

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/units"
	"github.com/bullpen-run/bullpen/process"
)

// daemonTable has all keys except those of pools.
var daemonTable = newTable(slices.Concat(daemonKeys(), lambdaKeys(), queueKeys(), tracesKeys()))

// levels maps words to slog.Level.
var levels = word([]string{"debug", "info", "warn", "error"},
	[]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError})

const (
	mostConnections = 1 << 20
	mostBody        = 16 << 30
	mostWait        = 24 * time.Hour
)

var hosts = list("names", "use host names without a scheme, such as [bullpen.internal]", isHost)

func daemonKeys() []key[Settings] {
	return []key[Settings]{
		row("node", text, "(the host's name)", "name of this daemon in the records of attempts", func(s *Settings) *string { return &s.Node }),
		reloaded(row("grace", duration, "30s", "how long running tasks may continue when the daemon stops, or when a reload replaces their pool",
			func(s *Settings) *time.Duration { return &s.Grace })),

		row("http.listen", address, "127.0.0.1:8650", "address of the API. An address that other machines can reach needs http.tls and http.tokens",
			func(s *Settings) *string { return &s.HTTP.Listen }),
		row("http.tls.cert", path, "(none)", "file with the TLS certificate and its intermediate certificates; reloaded when it changes",
			func(s *Settings) *string { return &s.HTTP.Cert }),
		row("http.tls.key", path, "(none)", "file with the private key of the certificate", func(s *Settings) *string { return &s.HTTP.Key }),
		hidden(row("http.tokens", path, "(none)", "file with the tokens of callers; reloaded when it changes, which ends the event streams of "+
			"removed tokens. Without it every caller on this machine may do everything",
			func(s *Settings) *string { return &s.HTTP.Tokens })),
		row("http.hosts", hosts, "(none)", "host names, besides those of this machine, under which the API may be called", func(s *Settings) *[]string { return &s.HTTP.Hosts }),
		row("http.max_body", size[int64](1, mostBody), "64MiB", "maximum size of a request body", func(s *Settings) *int64 { return &s.HTTP.MaxBody }),
		row("http.max_inflight", size[int64](1, 1<<50), "256MiB", "maximum size of all request bodies at a time", func(s *Settings) *int64 { return &s.HTTP.MaxInflight }),
		row("http.max_connections", count(1, mostConnections), "4096", "maximum number of connections; 32 more are reserved for probes and administrators", func(s *Settings) *int { return &s.HTTP.MaxConnections }),
		row("http.max_streams", count(1, mostConnections), "(half of max_connections)", "maximum number of event streams", func(s *Settings) *int { return &s.HTTP.MaxStreams }),
		row("http.max_client_streams", count(1, mostConnections), "(half of max_streams)", "maximum number of event streams per client, which is a token, or an address without tokens", func(s *Settings) *int { return &s.HTTP.MaxClientStreams }),
		row("http.rate", fraction(0, 1e9, "use a number of requests per second, or 0 for no limit"), "0", "maximum number of requests per second of one caller; 0 means no limit",
			func(s *Settings) *float64 { return &s.HTTP.Rate }),
		row("http.max_wait", scalar("duration", units.DurationUse+fmt.Sprintf("; the maximum is %v", mostWait), func(s string) (time.Duration, bool) {
			d, ok := parseDuration(s)
			return d, ok && d > 0 && d <= mostWait
		}), "10m", "maximum time that a request waits for the end of a job", func(s *Settings) *time.Duration { return &s.HTTP.MaxWait }),

		row("dashboard", flag, "true", "serves the dashboard at the root of the API", func(s *Settings) *bool { return &s.Dashboard }),

		row("probes.listen", address, "(nowhere)", "additional address for /livez, /readyz and /metrics, without tokens", func(s *Settings) *string { return &s.Probes.Listen }),

		row("log.level", levels, "info", "lowest level that is logged", func(s *Settings) *slog.Level { return &s.Log.Level }),
		row("log.format", word([]string{"text", "json"}, []bool{false, true}), "text", "text, or json with an object per line", func(s *Settings) *bool { return &s.Log.JSON }),

		row("budget.memory", size[int64](1<<20, math.MaxInt64), "(no limit)", "maximum memory of the workers of all pools together; a worker starts only if it fits",
			func(s *Settings) *int64 { return &s.budget().Memory }),
		row("budget.workers", count(1, math.MaxInt32), "(no limit)", "maximum number of workers of all pools together", func(s *Settings) *int { return &s.budget().Workers }),
		row("budget.starts", fraction(0.001, 1e6, "use a number of starts per second, 0.001 or more"), "(no limit)", "maximum number of worker starts per second, on average",
			func(s *Settings) *float64 { return &s.budget().Starts }),
	}
}

// budget returns the budget and creates it if it is nil. Load removes a budget that
// sets no bound.
func (s *Settings) budget() *process.BudgetConfig {
	if s.Budget == nil {
		s.Budget = new(process.BudgetConfig)
	}
	return s.Budget
}

const (
	leastLease   = 100 * time.Millisecond
	mostPayload  = 512 << 20
	mostLines    = 1000
	mostLineText = 256 << 10
)

var (
	replicas = word([]string{"1", "3", "5"}, []int{1, 3, 5})
	amount   = size[int64](1, math.MaxInt64)
)

func queueKeys() []key[Settings] {
	url := key[Settings]{
		path: "queue.url", kind: "URLs", use: "use the address of a server, such as nats://127.0.0.1:4222, or several, separated by commas", byDefault: "(none)", secret: true,
		does: "NATS server with JetStream that keeps the jobs, or several of one cluster, separated by commas; instead of queue.dir",
		set:  func(s *Settings, v value) error { return s.Store.setURL(v) },
		same: func(a, b *Settings) bool { return a.Store.sameURL(&b.Store) },
	}
	return append([]key[Settings]{
		row("queue.dir", path, "($STATE_DIRECTORY/queue, else bullpen-data)", "folder for the jobs; only one daemon at a time can use it",
			func(s *Settings) *string { return &s.Store.Dir }),
		url,
		row("queue.memory", flag, "false", "keeps jobs in memory, for tests: they are lost when the daemon ends", func(s *Settings) *bool { return &s.Store.Memory }),
		row("queue.replicas", replicas, "(1)", "with queue.url: number of servers that hold a copy of each job", func(s *Settings) *int { return &s.Store.Replicas }),
		row("queue.credentials", path, "(none)", "with queue.url: file with the credentials of NATS", func(s *Settings) *string { return &s.Store.Credentials }),
		row("queue.tls.ca", path, "(those of the system)", "with queue.url: file with the certificates of the authorities to trust", func(s *Settings) *string { return &s.Store.CA }),
		row("queue.tls.cert", path, "(none)", "with queue.url: file with the certificate of this client", func(s *Settings) *string { return &s.Store.Cert }),
		row("queue.tls.key", path, "(none)", "with queue.url: file with its private key", func(s *Settings) *string { return &s.Store.Key }),
		row("queue.reserve", size[int64](1, math.MaxInt64), "(128MiB, on small disks less)", "with queue.dir: disk space to keep free; with less, new jobs are refused",
			func(s *Settings) *int64 { return &s.Store.Reserve }),
		row("queue.namespace", token, "main", "name that separates several queues on one server", func(s *Settings) *string { return &s.Queue.Namespace }),
		row("queue.lease", span(leastLease), "30s", "how long a silent node may keep a job before another node gets it; use the same on all nodes",
			func(s *Settings) *time.Duration { return &s.Queue.Lease }),
		row("queue.key_window", span(time.Second), "24h", "how long the key of a job stays in use after the job has ended", func(s *Settings) *time.Duration { return &s.Queue.KeyWindow }),
		row("queue.max_payload", size[int](1, mostPayload), "(8MiB, with url 512KiB)", "maximum size of a payload", func(s *Settings) *int { return &s.Queue.MaxPayload }),
		row("queue.max_result", size[int](1, mostPayload), "(8MiB, with url 512KiB)", "maximum size of a result; a larger one fails the job with the outcome output", func(s *Settings) *int { return &s.Queue.MaxResult }),
	}, keepKeys()...)
}

func keepKeys() []key[Settings] {
	return []key[Settings]{
		row("queue.keep.jobs", amount, "4GiB", "maximum size of the jobs that have not ended; more are refused", func(s *Settings) *int64 { return &s.Queue.Keep.Jobs }),
		row("queue.keep.outcomes", amount, "1GiB", "maximum size of results, progress and log lines; the oldest are removed first", func(s *Settings) *int64 { return &s.Queue.Keep.Outcomes }),
		row("queue.keep.outcome_count", wide(count(1, math.MaxInt)), "1000000", "maximum number of results", func(s *Settings) *int64 { return &s.Queue.Keep.OutcomeCount }),
		row("queue.keep.outcome_age", span(time.Second), "24h", "how long results are kept", func(s *Settings) *time.Duration { return &s.Queue.Keep.OutcomeAge }),
		row("queue.keep.dead", amount, "1GiB", "maximum size of the dead jobs", func(s *Settings) *int64 { return &s.Queue.Keep.Dead }),
		row("queue.keep.dead_age", span(time.Second), "720h", "how long dead jobs are kept", func(s *Settings) *time.Duration { return &s.Queue.Keep.DeadAge }),
		row("queue.keep.lines", orNone(count(1, mostLines)), "50", "number of log lines to keep of each job, the last ones; 0 keeps none", func(s *Settings) *int { return &s.Queue.Keep.Lines }),
		row("queue.keep.line_bytes", size[int](1, mostLineText), "8KiB", "maximum size of these lines together", func(s *Settings) *int { return &s.Queue.Keep.LineBytes }),
		row("queue.keep.payloads", orNone(size[int](1, mostPayload)), "8KiB", "keeps payload and metadata of an ended job, to view or retry it, up to this size; 0 keeps none",
			func(s *Settings) *int { return &s.Queue.Keep.Payloads }),
	}
}
