package settings

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
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
	leastCPU     = 0.01
	mostCPU      = 1 << 13
)

func poolKeys() []key[Pool] {
	return []key[Pool]{
		hidden(row("command", command, "(none)", "program of the workers and its arguments. A text is split at spaces, quotes are honoured, and there is no shell. "+
			"Without it the pool is only a queue here, and others work it off", func(p *Pool) *[]string { return &p.Process.Command })),
		row("protocol", parsed([]string{"frames", "lines", "exec"}, process.ParseProtocol), "frames", "how workers are talked to: frames is that of the SDKs; "+
			"lines writes a payload a line and reads a result a line; exec starts a process a task", func(p *Pool) *process.Protocol { return &p.Process.Protocol }),
		row("task", scalar("text", "use a text of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }),
			"(the pool's name)", "name of tasks that have none of their own", func(p *Pool) *string { return &p.Task }),
		row("ephemeral", flag, "false", "allows tasks that bypass the queue", func(p *Pool) *bool { return &p.Ephemeral }),
		row("jobs", count(0, mostQueue), "0", "most jobs in hand at a time; 0 is what the workers can take", func(p *Pool) *int { return &p.Jobs }),
		row("strict_priority", flag, "false", "jobs of a higher priority go first always; else those of a lower one get a share", func(p *Pool) *bool { return &p.Strict }),
		row("helpers", count(0, mostWorkers), "(as workers.max)", "most workers beyond workers.max while tasks wait for others that they have submitted; 0 is none",
			func(p *Pool) *int { return &p.Helpers }),
		row("queue", count(1, mostQueue), "1024", "most tasks that wait in the pool itself, those that bypass the queue; more are refused", func(p *Pool) *int { return &p.Process.Queue }),
	}
}

func workerKeys() []key[Pool] {
	return []key[Pool]{
		row("workers.min", count(0, mostWorkers), "0", "workers that are always there; 0 starts the first with the first task", func(p *Pool) *int { return &p.Process.Min }),
		row("workers.max", count(1, mostWorkers), "(one a processor)", "most workers at a time", func(p *Pool) *int { return &p.Process.Max }),
		row("workers.spare", count(0, mostWorkers), "0", "workers that are kept warm beyond those that are busy", func(p *Pool) *int { return &p.Process.Spare }),
		row("workers.idle", orNever, "10s", "how long a worker beyond min and spare stays without work", func(p *Pool) *time.Duration { return &p.Process.Idle }),
		row("workers.window", count(1, mostWindow), "(by run time)", "most tasks in hand of one worker", func(p *Pool) *int { return &p.Process.Window }),
		row("workers.start_timeout", span(time.Millisecond), "30s", "longest time from the start of a worker to ready", func(p *Pool) *time.Duration { return &p.Process.StartTimeout }),
		row("workers.ping", orNever, "15s", "how often an idle worker is asked whether it lives, with frames", func(p *Pool) *time.Duration { return &p.Process.Ping }),
		row("workers.need", size[int64](1, math.MaxInt64), "(limits.memory, else as measured)", "memory that a worker is expected to use, for budget.memory",
			func(p *Pool) *int64 { return &p.Process.Need }),
	}
}

func limitKeys() []key[Pool] {
	return []key[Pool]{
		row("limits.timeout", span(time.Millisecond), "(none)", "longest run time of a task", func(p *Pool) *time.Duration { return &p.Process.Limits.Timeout }),
		row("limits.memory", size[int64](leastMemory, math.MaxInt64), "(none)", "most memory of a worker; one that hits it is killed", func(p *Pool) *int64 { return &p.Process.Limits.Memory }),
		row("limits.cpu", fraction(leastCPU, mostCPU, "use a number of processors from 0.01 on, such as 0.5 or 2"), "(none)", "most processors of a worker",
			func(p *Pool) *float64 { return &p.Process.Limits.CPU }),
		row("limits.output", size[int](1, math.MaxInt32), "64MiB", "largest result of a task", func(p *Pool) *int { return &p.Process.Limits.Output }),
		row("limits.pids", count(1, math.MaxInt32), "(no bound)", "most processes and threads of a worker", func(p *Pool) *int { return &p.Process.PIDs }),
		row("limits.weight", count(1, 10000), "(100)", "share of the workers where processors are scarce", func(p *Pool) *int { return &p.Process.Weight }),
	}
}

func policyKeys() []key[Pool] {
	backoff := key[Pool]{
		path: "retry.backoff", kind: "duration..duration", use: "use a duration such as 1s, or a range of them such as 1s..5m", byDefault: "1s..5m",
		does: "time before the second attempt, and the most to which it doubles; the real delay is a random part of it, at least half",
		set:  setBackoff,
		same: func(a, b *Pool) bool {
			return a.Retry.Backoff == b.Retry.Backoff && a.Retry.MaxBackoff == b.Retry.MaxBackoff
		},
	}
	return []key[Pool]{
		row("retry.attempts", count(1, mostAttempts), "5", "attempts that may end badly by themselves before a job is dead", func(p *Pool) *int { return &p.Retry.Attempts }),
		backoff,
		row("retry.crashes", count(1, mostAttempts), "3", "workers that a job may kill before it is quarantined", func(p *Pool) *int { return &p.Retry.Crashes }),
		row("retry.nodes", count(1, mostAttempts), "10", "nodes that may die with a job in hand before it is quarantined", func(p *Pool) *int { return &p.Retry.Nodes }),
		row("retry.bury", scalar("text", "use the name of a task, of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }), "(none)",
			"task that is told of dead jobs of the pool, with their payload", func(p *Pool) *string { return &p.Bury }),
		row("retry.on", outcomes, "failed,panic,timeout,protocol", "outcomes after which a job is tried again", func(p *Pool) *[]bullpen.Outcome { return &p.Retry.On }),
		row("groups.concurrency", count(0, 1<<20), "0", "most jobs of one group at the same time, on all nodes together; 0 is no limit", func(p *Pool) *int { return &p.Groups.Concurrency }),
		row("groups.rate", fraction(0, 1e6, "use a number of jobs a second, such as 10 or 0.5"), "0", "most jobs of one group that begin in a second, on average; 0 is no limit",
			func(p *Pool) *float64 { return &p.Groups.Rate }),
		row("groups.burst", count(0, 1<<20), "(as many as in a second)", "most jobs of one group that begin at once after a pause", func(p *Pool) *int { return &p.Groups.Burst }),
		row("groups.meta", scalar("text", "use a text of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }),
			"(none)", "key of a job's metadata that names its group where the job names none", func(p *Pool) *string { return &p.GroupMeta }),
		row("recycle.tasks", count(1, math.MaxInt), "(never)", "replaces a worker after so many tasks", func(p *Pool) *int { return &p.Process.Recycle.Tasks }),
		row("recycle.age", span(time.Second), "(never)", "replaces a worker after this time", func(p *Pool) *time.Duration { return &p.Process.Recycle.Age }),
		row("recycle.memory", size[int64](leastMemory, math.MaxInt64), "(never)", "replaces a worker that is larger, when it idles", func(p *Pool) *int64 { return &p.Process.Recycle.Memory }),
		row("recycle.jitter", orNone(fraction(0, 1, "use a part of the bounds, such as 0.1")), "0.1", "varies these bounds, so that workers of one age do not leave together",
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

func systemKeys() []key[Pool] {
	sandbox := func(p *Pool) *process.Sandbox { return &p.Process.Sandbox }
	return []key[Pool]{
		row("sandbox", profile, "default", "what workers are kept from: this word, or a mapping of the keys below", func(p *Pool) *process.Profile { return &sandbox(p).Profile }),
		row("sandbox.profile", profile, "default", "strict: no file but those of the system and sandbox.allow, no network, no view of other processes; "+
			"default: no more rights than the daemon has, and a temporary folder of its own; none: neither", func(p *Pool) *process.Profile { return &sandbox(p).Profile }),
		row("sandbox.allow", writable, "(none)", "with strict: files and folders that workers may use besides, PATH, or PATH:ro to read only; relative ones start at dir",
			func(p *Pool) *[]string { return &sandbox(p).Allow }),
		row("sandbox.network", flag, "false", "with strict: leaves workers the network", func(p *Pool) *bool { return &sandbox(p).Network }),
		row("sandbox.temp", size[int64](1, math.MaxInt64), "(256MiB)", "with strict: most bytes in the temporary folder of a worker", func(p *Pool) *int64 { return &sandbox(p).Temp }),
		row("sandbox.best_effort", flag, "false", "with strict: leaves out what this system cannot do, instead of refusing", func(p *Pool) *bool { return &sandbox(p).BestEffort }),
		hidden(row("env", environment, "(PATH, HOME, LANG, TMPDIR, TZ)", "environment of the workers besides: values, or null to pass on what the daemon has",
			func(p *Pool) *[]string { return &p.Process.Env })),
		row("dir", path, "(the folder of the file)", "working directory of the workers", func(p *Pool) *string { return &p.Process.Dir }),
		row("preload", list("text", "use a list of Python modules", func(s string) bool { return s != "" }), "(none)",
			"Python modules that one process imports once, from which workers are forked; Linux only", func(p *Pool) *[]string { return &p.Process.Preload }),
		row("nice", nice, "10", "priority of workers as a nice value, or host for that of the daemon", func(p *Pool) *int { return &p.Process.Nice }),
		row("cpus", cpus, "(all)", "processors that workers may use", func(p *Pool) *[]int { return &p.Process.CPUs }),
		row("io", word([]string{"normal", "low", "idle"}, []process.IOPriority{process.IONormal, process.IOLow, process.IOIdle}), "normal",
			"priority of workers for disks", func(p *Pool) *process.IOPriority { return &p.Process.IO }),
		row("oom_score", orNone(count(1, 1000)), "500", "added to the score by which the kernel chooses what to kill when memory is out; 0 leaves it as it is", func(p *Pool) *int { return &p.Process.OOMScore }),
		row("grace", span(time.Millisecond), "500ms", "time between asking a task to end and killing its worker", func(p *Pool) *time.Duration { return &p.Process.Grace }),
		row("close_grace", span(time.Millisecond), "5s", "how long the end of the pool may take when its tasks are ended", func(p *Pool) *time.Duration { return &p.Process.CloseGrace }),
		row("log_rate", orNone(size[int64](1, math.MaxInt64)), "256KiB", "most bytes a second of the output of one worker in the daemon's log, four times as many at once after a pause; a line says how much was left out; 0 is no bound",
			func(p *Pool) *int64 { return &p.Process.LogRate }),
		row("null", flag, "false", "separates lines by NUL bytes, with lines", func(p *Pool) *bool { return &p.Process.NUL }),
		row("arena", orNone(size[int](1<<12, math.MaxInt32)), "64MiB", "shared memory of a worker for large payloads and results, with frames; 0 is none", func(p *Pool) *int { return &p.Process.Arena }),
	}
}
