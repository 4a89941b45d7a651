package settings

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/units"
	"github.com/bullpen-run/bullpen/process"
)

// poolTable has all keys of a pool.
var poolTable = newTable(slices.Concat(poolKeys(), workerKeys(), limitKeys(), policyKeys(), systemKeys()))

const (
	mostWorkers  = 1 << 16
	mostQueue    = 1 << 24
	mostWindow   = 1 << 10
	mostAttempts = 1 << 16
	leastMemory  = 1 << 20
)

func poolKeys() []key[Pool] {
	return []key[Pool]{
		hidden(row("command", command, "(none)", "program of the workers and its arguments. A single text is split at spaces, with quotes but "+
			"without a shell. Without a command the pool is only a queue, and other daemons run its jobs", func(p *Pool) *[]string { return &p.Process.Command })),
		row("protocol", parsed([]string{"frames", "lines", "exec", "lambda", "http"}, process.ParseProtocol), "frames", "how to talk to the workers: frames is for the SDKs; lines writes each payload as a line and "+
			"reads each result as a line; exec starts a process per task; lambda is for functions of AWS Lambda; http posts each payload to a web server, at the port in the variable PORT", func(p *Pool) *process.Protocol { return &p.Process.Protocol }),
		row("task", scalar("text", "use a text of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }),
			"(the pool's name)", "name of tasks that are submitted without one", func(p *Pool) *string { return &p.Task }),
		row("ephemeral", flag, "false", "allows tasks that bypass the queue", func(p *Pool) *bool { return &p.Ephemeral }),
		row("jobs", count(0, mostQueue), "0", "maximum number of jobs taken from the queue at a time; 0 means as many as the workers can run", func(p *Pool) *int { return &p.Jobs }),
		row("strict_priority", flag, "false", "jobs of a higher priority always go first; if false, lower priorities get a share", func(p *Pool) *bool { return &p.Strict }),
		row("helpers", count(0, mostWorkers), "(as workers.max)", "maximum number of extra workers beyond workers.max while tasks wait for tasks that they have submitted; 0 means none",
			func(p *Pool) *int { return &p.Helpers }),
		row("lambda.event_age", orNever, "6h", "maximum time between an Event invocation through the Lambda front and its end; then the job ends with the outcome timeout",
			func(p *Pool) *time.Duration { return &p.EventAge }),
		row("queue", count(1, mostQueue), strconv.Itoa(process.DefaultQueue), "maximum number of ephemeral tasks that wait in the pool; more are refused", func(p *Pool) *int { return &p.Process.Queue }),
	}
}

func workerKeys() []key[Pool] {
	return []key[Pool]{
		row("workers.min", count(0, mostWorkers), "0", "minimum number of workers; with 0 the first task starts the first worker", func(p *Pool) *int { return &p.Process.Min }),
		row("workers.max", count(1, mostWorkers), "(one per processor)", "maximum number of workers", func(p *Pool) *int { return &p.Process.Max }),
		row("workers.spare", count(0, mostWorkers), "0", "number of idle workers to keep warm beyond the busy ones", func(p *Pool) *int { return &p.Process.Spare }),
		row("workers.idle", orNever, process.DefaultIdle.String(), "how long an idle worker beyond min and spare stays", func(p *Pool) *time.Duration { return &p.Process.Idle }),
		row("workers.window", count(1, mostWindow), "(by run time)", "maximum number of tasks sent to a worker at a time", func(p *Pool) *int { return &p.Process.Window }),
		row("workers.concurrency", count(1, mostWindow), "(1)", "with http and lambda: maximum number of tasks that a worker runs at a time", func(p *Pool) *int { return &p.Process.Concurrency }),
		row("workers.start_timeout", span(time.Millisecond), process.DefaultStartTimeout.String(), "maximum time for a worker to become ready", func(p *Pool) *time.Duration { return &p.Process.StartTimeout }),
		row("workers.ping", orNever, process.DefaultPing.String(), "with frames: time between two checks that an idle worker is alive", func(p *Pool) *time.Duration { return &p.Process.Ping }),
		row("workers.need", size[int64](1, math.MaxInt64), "(limits.memory, else as measured)", "memory that a worker is expected to use, counted in budget.memory",
			func(p *Pool) *int64 { return &p.Process.Need }),
		row("batch.max", count(1, process.MaxBatch), "(none)", "with frames, lambda and http: maximum number of tasks that share a call of a worker; without it, each task is a call",
			func(p *Pool) *int { return &p.Process.Batch.Max }),
		row("batch.wait", span(time.Microsecond), "(none)", "how long a task may wait for others to share a call", func(p *Pool) *time.Duration { return &p.Process.Batch.Wait }),
		row("batch.shape", parsed([]string{"list", "sqs"}, process.ParseBatchShape), "list", "input and answer of a shared call: list is a JSON array of payloads, and one of results; sqs, with lambda, is an SQS event, and batchItemFailures",
			func(p *Pool) *process.BatchShape { return &p.Process.Batch.Shape }),
	}
}

func limitKeys() []key[Pool] {
	return []key[Pool]{
		row("limits.timeout", span(time.Millisecond), "(none)", "run-time limit of a task", func(p *Pool) *time.Duration { return &p.Process.Limits.Timeout }),
		row("limits.memory", size[int64](leastMemory, math.MaxInt64), "(none)", "memory limit of a worker; a worker above it is killed", func(p *Pool) *int64 { return &p.Process.Limits.Memory }),
		row("limits.cpu", scalar("number", units.CPUUse, func(s string) (float64, bool) {
			n, err := units.CPU(s)
			return n, err == nil
		}), "(none)", "processor limit of a worker; 1 is one whole processor",
			func(p *Pool) *float64 { return &p.Process.Limits.CPU }),
		row("limits.output", size[int](1, math.MaxInt32), "(64MiB, with lambda 6MiB)", "maximum size of a result", func(p *Pool) *int { return &p.Process.Limits.Output }),
		row("limits.pids", count(1, math.MaxInt32), "(no limit)", "maximum number of processes and threads of a worker", func(p *Pool) *int { return &p.Process.PIDs }),
		row("limits.weight", count(1, 10000), "(100)", "relative share of processor time of the workers when processors are scarce", func(p *Pool) *int { return &p.Process.Weight }),
	}
}

func policyKeys() []key[Pool] {
	backoff := key[Pool]{
		path: "retry.backoff", kind: "duration..duration", use: "use a duration such as 1s, or a range such as 1s..5m", byDefault: "1s..5m",
		does: "delay before the second attempt, and the maximum to which it doubles; the actual delay is random, between half of it and all of it",
		set:  setBackoff,
		same: func(a, b *Pool) bool {
			return a.Retry.Backoff == b.Retry.Backoff && a.Retry.MaxBackoff == b.Retry.MaxBackoff
		},
	}
	return []key[Pool]{
		row("retry.attempts", count(1, mostAttempts), "5", "number of failed attempts after which a job is dead", func(p *Pool) *int { return &p.Retry.Attempts }),
		backoff,
		row("retry.crashes", count(1, mostAttempts), "3", "number of workers that a job may kill before it is quarantined", func(p *Pool) *int { return &p.Retry.Crashes }),
		row("retry.nodes", count(1, mostAttempts), "10", "number of nodes that may die while running a job before it is quarantined", func(p *Pool) *int { return &p.Retry.Nodes }),
		row("retry.bury", scalar("text", "use the name of a task, of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }), "(none)",
			"task to run for each dead job of the pool, with its payload", func(p *Pool) *string { return &p.Bury }),
		row("retry.on", outcomes, "failed,panic,timeout,protocol", "outcomes after which a job is retried", func(p *Pool) *[]bullpen.Outcome { return &p.Retry.On }),
		row("groups.concurrency", count(0, 1<<20), "0", "maximum number of running jobs of one group, on all nodes together; 0 means no limit", func(p *Pool) *int { return &p.Groups.Concurrency }),
		row("groups.rate", fraction(0, 1e6, "use a number of jobs per second, such as 10 or 0.5"), "0", "maximum number of jobs of one group that start per second, on average; 0 means no limit",
			func(p *Pool) *float64 { return &p.Groups.Rate }),
		row("groups.burst", count(0, 1<<20), "(as many as per second)", "maximum number of jobs of one group that start at once after a pause", func(p *Pool) *int { return &p.Groups.Burst }),
		row("groups.meta", scalar("text", "use a text of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }),
			"(none)", "key in a job's metadata that names its group if the job names none", func(p *Pool) *string { return &p.GroupMeta }),
		row("recycle.tasks", count(1, math.MaxInt), "(never)", "replaces a worker after this many tasks", func(p *Pool) *int { return &p.Process.Recycle.Tasks }),
		row("recycle.age", span(time.Second), "(never)", "replaces a worker after this time", func(p *Pool) *time.Duration { return &p.Process.Recycle.Age }),
		row("recycle.memory", size[int64](leastMemory, math.MaxInt64), "(never)", "replaces a worker that uses more memory than this, when it is idle", func(p *Pool) *int64 { return &p.Process.Recycle.Memory }),
		row("recycle.jitter", orNone(fraction(0, 1, "use a fraction such as 0.1")), "0.1", "varies these limits by up to this fraction, so that workers of the same age do not end together",
			func(p *Pool) *float64 { return &p.Process.Recycle.Jitter }),
	}
}

// setBackoff parses "1s..5m", or one duration.
func setBackoff(p *Pool, v value) error {
	if v.shape != isScalar {
		return errUse
	}
	first, last, ranged := strings.Cut(v.text, "..")
	from, ok := parseDuration(first)
	to := max(from, 5*time.Minute)
	if ranged && ok {
		to, ok = parseDuration(last)
	}
	if !ok || from <= 0 || to < from {
		return errUse
	}
	p.Retry.Backoff, p.Retry.MaxBackoff = from, to
	return nil
}

var writable = list("text", "use a list of PATH and PATH:ro", func(s string) bool { return strings.TrimSuffix(s, ":ro") != "" && !strings.ContainsRune(s, 0) })

var urlPath = scalar("path of a URL", "use a path that begins with /", func(s string) (string, bool) {
	u, err := url.ParseRequestURI(s)
	return s, err == nil && u.Host == "" && strings.HasPrefix(s, "/")
})

func systemKeys() []key[Pool] {
	sandbox := func(p *Pool) *process.Sandbox { return &p.Process.Sandbox }
	return []key[Pool]{
		row("sandbox", profile, "default", "isolation of the workers: one of these words, or a mapping of the keys below", func(p *Pool) *process.Profile { return &sandbox(p).Profile }),
		row("sandbox.profile", profile, "default", "strict: only files of the system and sandbox.allow, no network, no view of other processes; "+
			"default: no more rights than the daemon, and its own temporary folder; none: neither", func(p *Pool) *process.Profile { return &sandbox(p).Profile }),
		row("sandbox.allow", writable, "(none)", "with strict: additional files and folders for the workers, as PATH, or PATH:ro to read only; relative paths start at dir",
			func(p *Pool) *[]string { return &sandbox(p).Allow }),
		row("sandbox.network", flag, "false", "with strict: lets workers use the network", func(p *Pool) *bool { return &sandbox(p).Network }),
		row("sandbox.temp", size[int64](1, math.MaxInt64), "(256MiB)", "with strict: maximum size of the temporary folder of a worker", func(p *Pool) *int64 { return &sandbox(p).Temp }),
		row("sandbox.best_effort", flag, "false", "with strict: skips the parts that this system cannot provide, instead of refusing to start", func(p *Pool) *bool { return &sandbox(p).BestEffort }),
		hidden(row("env", environment, "(PATH, HOME, LANG, TMPDIR, TZ)", "additional environment variables of the workers; null passes on the daemon's value",
			func(p *Pool) *[]string { return &p.Process.Env })),
		row("dir", path, "(the folder of the file)", "working directory of the workers", func(p *Pool) *string { return &p.Process.Dir }),
		row("preload", list("text", "use a list of Python modules", func(s string) bool { return s != "" }), "(none)",
			"Python modules to import once, in a process from which workers are forked; Linux only", func(p *Pool) *[]string { return &p.Process.Preload }),
		row("nice", nice, "10", "nice value of the workers, or host for that of the daemon", func(p *Pool) *int { return &p.Process.Nice }),
		row("cpus", cpus, "(all)", "processors that workers may use", func(p *Pool) *[]int { return &p.Process.CPUs }),
		row("io", word([]string{"normal", "low", "idle"}, []process.IOPriority{process.IONormal, process.IOLow, process.IOIdle}), "normal",
			"disk priority of the workers", func(p *Pool) *process.IOPriority { return &p.Process.IO }),
		row("oom_score", orNone(count(1, 1000)), "500", "raises the score by which the kernel chooses what to kill when memory runs out; 0 leaves it unchanged", func(p *Pool) *int { return &p.Process.OOMScore }),
		row("grace", span(time.Millisecond), process.DefaultGrace.String(), "time between asking a task to end and killing its worker", func(p *Pool) *time.Duration { return &p.Process.Grace }),
		row("close_grace", span(time.Millisecond), process.DefaultCloseGrace.String(), "how long the pool may take to end once its tasks are being ended", func(p *Pool) *time.Duration { return &p.Process.CloseGrace }),
		row("log_rate", orNone(size[int64](1, math.MaxInt64)), "256KiB", "maximum output of one worker per second in the daemon's log, four times as much at once "+
			"after a pause; a line reports how much was dropped; 0 means no limit",
			func(p *Pool) *int64 { return &p.Process.LogRate }),
		row("http.path", urlPath, "(/)", "with http: path to which tasks are posted; {name} in it is replaced by the task's name", func(p *Pool) *string { return &p.Process.HTTP.Path }),
		row("http.ready", urlPath, "(none)", "with http: path that answers 2xx as soon as the worker is ready; without it, the worker is ready when it accepts a connection",
			func(p *Pool) *string { return &p.Process.HTTP.Ready }),
		row("lambda.handler", scalar("text", "use a text", func(s string) (string, bool) { return s, s != "" }), "(the last argument of command)",
			"with lambda: the variable _HANDLER", func(p *Pool) *string { return &p.Process.Lambda.Handler }),
		row("null", flag, "false", "with lines: ends lines with NUL bytes", func(p *Pool) *bool { return &p.Process.NUL }),
		row("arena", orNone(size[int](1<<12, math.MaxInt32)), "64MiB", "with frames: shared memory of a worker for large payloads and results; 0 means none", func(p *Pool) *int { return &p.Process.Arena }),
	}
}
