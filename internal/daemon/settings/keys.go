package settings

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/bullpen-run/bullpen/process"
)

// daemonTable has all keys except those of pools.
var daemonTable = newTable(append(append(daemonKeys(), queueKeys()...), tracesKeys()...))

// levels maps words to slog.Level.
var levels = word([]string{"debug", "info", "warn", "error"},
	[]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError})

const (
	mostConnections = 1 << 20
	mostBody        = 16 << 30
	mostWait        = 24 * time.Hour
)

var hosts = list("names", "use names of hosts without scheme, such as [bullpen.internal]", isHost)

func daemonKeys() []key[Settings] {
	return []key[Settings]{
		row("node", text, "(the host's name)", "names this daemon in the records of attempts", func(s *Settings) *string { return &s.Node }),
		reloaded(row("grace", duration, "30s", "how long tasks that run may go on when the daemon stops, or when a reload replaces their pool",
			func(s *Settings) *time.Duration { return &s.Grace })),

		row("http.listen", address, "127.0.0.1:8650", "where the API is served. An address that other machines reach needs http.tls and http.tokens",
			func(s *Settings) *string { return &s.HTTP.Listen }),
		row("http.tls.cert", path, "(none)", "file with the certificate for TLS and those that it rests on; it is read again when it changes",
			func(s *Settings) *string { return &s.HTTP.Cert }),
		row("http.tls.key", path, "(none)", "file with the private key of the certificate", func(s *Settings) *string { return &s.HTTP.Key }),
		hidden(row("http.tokens", path, "(none)", "file with the tokens that callers must have; it is read again when it changes, and what is followed with a token that is taken back ends. Without it every caller on this machine may do everything",
			func(s *Settings) *string { return &s.HTTP.Tokens })),
		row("http.hosts", hosts, "(none)", "names, besides those of this machine, by which the API may be called", func(s *Settings) *[]string { return &s.HTTP.Hosts }),
		row("http.max_body", size[int64](1, mostBody), "64MiB", "largest body of a request", func(s *Settings) *int64 { return &s.HTTP.MaxBody }),
		row("http.max_inflight", size[int64](1, 1<<50), "256MiB", "most bytes of all bodies at a time", func(s *Settings) *int64 { return &s.HTTP.MaxInflight }),
		row("http.max_connections", count(1, mostConnections), "4096", "most connections at a time; 32 more are for probes and administrators", func(s *Settings) *int { return &s.HTTP.MaxConnections }),
		row("http.max_streams", count(1, mostConnections), "(half of max_connections)", "most event streams at a time", func(s *Settings) *int { return &s.HTTP.MaxStreams }),
		row("http.max_client_streams", count(1, mostConnections), "(half of max_streams)", "most event streams of one client: of a token, without one of an address", func(s *Settings) *int { return &s.HTTP.MaxClientStreams }),
		row("http.rate", fraction(0, 1e9, "use requests a second, or 0 for no bound"), "0", "most requests of one caller a second; 0 is no bound",
			func(s *Settings) *float64 { return &s.HTTP.Rate }),
		row("http.max_wait", scalar("duration", durationUse+fmt.Sprintf("; the most is %v", mostWait), func(s string) (time.Duration, bool) {
			d, ok := parseDuration(s)
			return d, ok && d > 0 && d <= mostWait
		}), "10m", "longest that a request waits for the end of a job", func(s *Settings) *time.Duration { return &s.HTTP.MaxWait }),

		row("dashboard", flag, "true", "serves the dashboard at the root of the API", func(s *Settings) *bool { return &s.Dashboard }),

		row("probes.listen", address, "(nowhere)", "where /livez, /readyz and /metrics are served, without tokens, besides the API", func(s *Settings) *string { return &s.Probes.Listen }),

		row("log.level", levels, "info", "least level that is logged", func(s *Settings) *slog.Level { return &s.Log.Level }),
		row("log.format", word([]string{"text", "json"}, []bool{false, true}), "text", "text, or an object of JSON a line", func(s *Settings) *bool { return &s.Log.JSON }),

		row("budget.memory", size[int64](1<<20, math.MaxInt64), "(no bound)", "memory of the workers of all pools together, within which workers are started",
			func(s *Settings) *int64 { return &s.budget().Memory }),
		row("budget.workers", count(1, math.MaxInt32), "(no bound)", "most workers of all pools at a time", func(s *Settings) *int { return &s.budget().Workers }),
		row("budget.starts", fraction(0.001, 1e6, "use starts a second, 0.001 or more"), "(no bound)", "most starts of workers a second, on the average",
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
		path: "queue.url", kind: "URLs", use: "use the address of a server, such as nats://127.0.0.1:4222, or several with commas between them", byDefault: "(none)", secret: true,
		does: "NATS server with JetStream that keeps the jobs, or several of one cluster with commas between them, instead of queue.dir",
		set:  func(s *Settings, v value) error { return s.Store.setURL(v) },
		same: func(a, b *Settings) bool { return a.Store.sameURL(&b.Store) },
	}
	return append([]key[Settings]{
		row("queue.dir", path, "($STATE_DIRECTORY/queue, else bullpen-data)", "folder with the jobs. It belongs to one daemon at a time",
			func(s *Settings) *string { return &s.Store.Dir }),
		url,
		row("queue.memory", flag, "false", "keeps jobs in memory, for tests: none survives the end of the daemon", func(s *Settings) *bool { return &s.Store.Memory }),
		row("queue.replicas", replicas, "(1)", "with queue.url: on how many servers each job lies", func(s *Settings) *int { return &s.Store.Replicas }),
		row("queue.credentials", path, "(none)", "with queue.url: file with the credentials of NATS", func(s *Settings) *string { return &s.Store.Credentials }),
		row("queue.tls.ca", path, "(those of the system)", "with queue.url: file with the certificates by which the server is known", func(s *Settings) *string { return &s.Store.CA }),
		row("queue.tls.cert", path, "(none)", "with queue.url: file with the certificate of this client", func(s *Settings) *string { return &s.Store.Cert }),
		row("queue.tls.key", path, "(none)", "with queue.url: file with its private key", func(s *Settings) *string { return &s.Store.Key }),
		row("queue.reserve", size[int64](1, math.MaxInt64), "(128MiB, on small disks less)", "with queue.dir: what must be free on the disk for more jobs to be taken",
			func(s *Settings) *int64 { return &s.Store.Reserve }),
		row("queue.namespace", token, "main", "keeps several queues on one server apart", func(s *Settings) *string { return &s.Queue.Namespace }),
		row("queue.lease", span(leastLease), "30s", "how long a node may keep a job without a sign of life before another gets it; the same on all nodes",
			func(s *Settings) *time.Duration { return &s.Queue.Lease }),
		row("queue.key_window", span(time.Second), "24h", "how long after the end of a job its key still stands for it", func(s *Settings) *time.Duration { return &s.Queue.KeyWindow }),
		row("queue.max_payload", size[int](1, mostPayload), "(8MiB, with url 512KiB)", "largest payload of a job", func(s *Settings) *int { return &s.Queue.MaxPayload }),
		row("queue.max_result", size[int](1, mostPayload), "(8MiB, with url 512KiB)", "largest result of a job; a larger one is the outcome output", func(s *Settings) *int { return &s.Queue.MaxResult }),
	}, keepKeys()...)
}

func keepKeys() []key[Settings] {
	return []key[Settings]{
		row("queue.keep.jobs", amount, "4GiB", "bytes of jobs that have not ended; more are refused", func(s *Settings) *int64 { return &s.Queue.Keep.Jobs }),
		row("queue.keep.outcomes", amount, "1GiB", "bytes of results, progress and log lines; the oldest go first", func(s *Settings) *int64 { return &s.Queue.Keep.Outcomes }),
		row("queue.keep.outcome_count", wide(count(1, math.MaxInt)), "1000000", "number of results", func(s *Settings) *int64 { return &s.Queue.Keep.OutcomeCount }),
		row("queue.keep.outcome_age", span(time.Second), "24h", "how long results are kept", func(s *Settings) *time.Duration { return &s.Queue.Keep.OutcomeAge }),
		row("queue.keep.dead", amount, "1GiB", "bytes of dead jobs", func(s *Settings) *int64 { return &s.Queue.Keep.Dead }),
		row("queue.keep.dead_age", span(time.Second), "720h", "how long dead jobs are kept", func(s *Settings) *time.Duration { return &s.Queue.Keep.DeadAge }),
		row("queue.keep.lines", orNone(count(1, mostLines)), "50", "how many of the last log lines of a job are kept; 0 keeps none", func(s *Settings) *int { return &s.Queue.Keep.Lines }),
		row("queue.keep.line_bytes", size[int](1, mostLineText), "8KiB", "bytes of these lines together", func(s *Settings) *int { return &s.Queue.Keep.LineBytes }),
		row("queue.keep.payloads", orNone(size[int](1, mostPayload)), "8KiB", "largest job, payload and metadata, that is kept with its result, so that it can be looked at and tried again; 0 keeps none",
			func(s *Settings) *int { return &s.Queue.Keep.Payloads }),
	}
}
