package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/command"
	"github.com/bullpen-run/bullpen/process"
)

// Defaults of bullpen map.
const (
	defaultQueue   = 4096
	defaultMaxLine = 64 << 20
)

// options are the flags of bullpen map.
type options struct {
	command  []string
	lists    [][]string // the lists after :::
	template *command.Template

	protocol process.Protocol
	task     string
	null     bool
	files    bool
	json     bool
	maxLine  int64
	argFiles []string
	perTask  int
	colsep   *command.Separator
	replace  string
	literal  bool

	min, max, spare int
	idle            time.Duration
	queue, window   int
	concurrency     int
	batch           process.Batch
	http            process.HTTPWorker
	nice            int
	cpus            []int
	env             []string
	envAll          bool
	dir             string
	grace           time.Duration
	recycleTasks    int
	recycleMemory   int64

	memory     int64
	pids       int
	cpu        float64
	sandbox    process.Profile
	allow      []string
	network    bool
	bestEffort bool
	preload    []string

	keep     bool
	timeout  time.Duration
	retries  int
	halt     halt
	failFast bool
	dryRun   bool

	results     string
	tag         bool
	output      string
	joblog      string
	joblogInput bool // log long lines too
	joblogShort bool // log short lines
	resume      bool
	progress    string
	bar, eta    bool
	summary     bool
	verbose     bool
}

// define adds the flags of o to set; faults in their values go to bad.
func (o *options) define(set *pflag.FlagSet, bad *faults) {
	*o = options{
		protocol: process.Lines, queue: defaultQueue, maxLine: defaultMaxLine, idle: process.DefaultIdle,
		grace: process.DefaultGrace, nice: process.DefaultNice, output: "text", progress: "auto",
	}
	set.SortFlags = false
	f := flagSet{set, bad}
	o.defineInput(f)
	o.defineWorkers(f)
	o.defineBounds(f)
	o.defineRun(f)
	o.defineOutput(f)
}

func (o *options) defineInput(f flagSet) {
	add(f, &o.protocol, "protocol", "p", "WORD", "lines", process.ParseProtocol,
		"how to talk to workers: lines (any filter: a line in, a line out), frames (programs that use a worker SDK), exec (one process per task), "+
			"lambda (functions of AWS Lambda), http (web servers that listen on the port in the variable PORT)")
	f.StringArrayVarP(&o.argFiles, "arg-file", "a", nil, "read tasks from `FILE` instead of standard input; - is standard input; several files are combined, each line with each")
	add(f, &o.perTask, "max-args", "n", "N", "1", number(1, 1<<20), "take N lines as one task (exec, frames)")
	add(f, &o.colsep, "colsep", "C", "SEP", "", command.ParseSeparator, "cut lines into {1}, {2} and so on (exec); a character, or a regular expression such as '\\t' or ' +'")
	add(f, &o.replace, "replace", "I", "TEXT", "", word, "replace TEXT in the command by the line, and no other placeholder (exec); -I {} replaces only {}")
	f.BoolVar(&o.literal, "literal", false, "replace nothing in the command: the line goes to standard input")
	add(f, &o.task, "task", "t", "NAME", "", word, "name of the task, which selects the handler in the worker (frames), or replaces {name} in --path (http)")
	f.BoolVarP(&o.null, "null", "0", false, "tasks and results end with a NUL byte instead of a line feed")
	f.BoolVar(&o.files, "files", false, "each line names a file, whose content is the task (with exec and {}: its name)")
	f.BoolVar(&o.json, "json", false, "tasks and results are JSON, one value per line; anything else fails")
	add(f, &o.maxLine, "max-line", "", "SIZE", "64MiB", size, "maximum size of a task and of a result; a larger one fails")
}

func (o *options) defineWorkers(f flagSet) {
	add(f, &o.max, "max", "j", "N", "100%", parseJobs, "maximum number of workers; by default one per processor; +N, -N and P% are relative to the number of processors")
	add(f, &o.min, "min", "", "N", "0", number(0, math.MaxInt32), "minimum number of workers, started at once and kept")
	add(f, &o.spare, "spare", "", "N", "0", number(0, math.MaxInt32), "number of idle workers to keep warm beyond the busy ones")
	add(f, &o.idle, "idle", "", "TIME", process.DefaultIdle.String(), duration, "how long an idle worker stays")
	add(f, &o.queue, "queue", "", "N", fmt.Sprint(defaultQueue), number(1, 1<<24), "maximum number of tasks read ahead: waiting, or done and held for --keep-order")
	add(f, &o.window, "window", "", "N", "auto", number(1, 1024), "maximum number of tasks sent to a worker at a time; by default 1 to 128, chosen by their run time")
	add(f, &o.concurrency, "concurrency", "", "N", "1", number(1, 1024), "maximum number of tasks that a worker runs at a time (http, lambda)")
	add(f, &o.batch.Max, "batch-max", "", "N", "", number(1, process.MaxBatch), "maximum number of tasks that share a call of a worker (frames, lambda, http); without it, each task is a call")
	add(f, &o.batch.Wait, "batch-wait", "", "TIME", "", positive, "how long a task may wait for others to share a call")
	add(f, &o.batch.Shape, "batch-shape", "", "WORD", "list", process.ParseBatchShape, "input and answer of a shared call: list (a JSON array of tasks, and one of results) or sqs (an SQS event, and batchItemFailures; lambda)")
	add(f, &o.http.Path, "path", "", "PATH", "/", word, "path to which tasks are posted (http)")
	add(f, &o.http.Ready, "ready", "", "PATH", "", word, "path that answers 2xx as soon as a worker is ready (http); without it, the worker is ready when it accepts a connection")
	add(f, &o.nice, "nice", "", "N", fmt.Sprint(process.DefaultNice), number(-20, 19), "nice value of workers; 0 is that of bullpen itself")
	add(f, &o.cpus, "cpus", "", "LIST", "all", process.ParseCPUs, "processors that workers may use, such as 0-3,7 or the mask 0x8f")
	f.StringArrayVar(&o.env, "env", nil, "variable for the workers, repeatable: `NAME[=VALUE]` sets it, or without a value passes it on; they get PATH, HOME, LANG, TMPDIR and TZ anyway")
	f.BoolVar(&o.envAll, "env-all", false, "pass the whole environment on to workers")
	add(f, &o.dir, "dir", "", "DIR", "", word, "working directory of workers")
	add(f, &o.grace, "grace", "", "TIME", process.DefaultGrace.String(), duration, "time between asking a task to end and killing its worker")
	add(f, &o.recycleTasks, "recycle-tasks", "", "N", "", number(1, math.MaxInt32), "replace a worker after this many tasks")
	add(f, &o.recycleMemory, "recycle-memory", "", "SIZE", "", size, "replace a worker that uses more memory than this")
}

func (o *options) defineBounds(f flagSet) {
	add(f, &o.memory, "memory", "", "SIZE", "", size, "memory limit of a worker with all its child processes; a worker above it is killed, with the outcome memory for its task")
	add(f, &o.pids, "pids", "", "N", "", number(1, math.MaxInt32), "maximum number of processes and threads of a worker")
	add(f, &o.cpu, "cpu", "", "N", "", share, "processor limit of a worker; 1 is one whole processor")
	add(f, &o.sandbox, "sandbox", "", "WORD", "default", process.ParseProfile,
		"how workers are isolated: none, default (no new rights, a temporary folder each), strict (only the system's files and --allow, no network, few system calls)")
	f.StringArrayVar(&o.allow, "allow", nil, "file or folder that workers in the strict sandbox may use, repeatable: `PATH[:ro]`, to write to, or with :ro only to read and run")
	f.BoolVar(&o.network, "network", false, "let workers in the strict sandbox use the network")
	f.BoolVar(&o.bestEffort, "best-effort", false, "skip the parts of the strict sandbox that this system cannot provide, instead of refusing to start")
	f.StringSliceVar(&o.preload, "preload", nil, "import a Python `MODULE` once, repeatable: workers are then forked from that process, which is many times faster")
}

func (o *options) defineRun(f flagSet) {
	f.BoolVarP(&o.keep, "keep-order", "k", false, "write results in the order of the input")
	add(f, &o.timeout, "timeout", "", "TIME", "", positive, "run-time limit of a task")
	add(f, &o.retries, "retries", "", "N", "0", number(0, math.MaxInt32), "retry tasks that failed, crashed, timed out or were lost, up to N times")
	add(f, &o.halt, "halt", "", "N|P%|WHEN,WHAT=N", "", parseHalt,
		fmt.Sprintf("stop after N failures, or once P%% of the ended tasks (and at least %d) have failed; "+
			"running tasks are finished. As in GNU parallel: now (kill running tasks) or soon, with "+
			"fail, success or done, such as now,fail=1; or never", leastOfPercent))
	f.BoolVar(&o.failFast, "fail-fast", false, "stop at the first failure, like --halt 1")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the commands without running them (exec); no job log and no results are written")
	add(f, &o.joblog, "joblog", "", "FILE", "", word, "append a line of JSON to FILE for each task that has ended")
	f.BoolVar(&o.joblogInput, "joblog-input", false, fmt.Sprintf("record input and command in the job log, however long; by default those of up to %d bytes; =false leaves them out", joblogShort))
	f.BoolVar(&o.resume, "resume", false, "skip the tasks that the job log records as ok, and continue that log")
}

func (o *options) defineOutput(f flagSet) {
	add(f, &o.output, "output", "o", "WORD", "text", oneOf("text", "json"), "text (the results, unchanged) or json (an object for each task, failed ones too)")
	add(f, &o.results, "results", "", "DIR", "", word, "write each result to its own file below DIR instead of standard output")
	f.BoolVar(&o.tag, "tag", false, "begin each line of a result with its task and a tab")
	add(f, &o.progress, "progress", "", "WORD", "auto", oneOf("auto", "always", "never"), "show progress on standard error; auto: when it is a terminal")
	f.BoolVar(&o.bar, "bar", false, "show progress as a bar")
	f.BoolVar(&o.eta, "eta", false, "show progress with the estimated remaining time, like --progress always")
	f.BoolVar(&o.summary, "summary", false, "print a summary to standard error, even when nothing failed")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the output of workers and their starts and ends to standard error")
}

// checkBatch checks the flags of shared calls.
func (o *options) checkBatch(set *pflag.FlagSet, bad *faults) {
	for _, name := range []string{"batch-max", "batch-wait", "batch-shape"} {
		switch {
		case !set.Changed(name):
		case o.protocol == process.Lines || o.protocol == process.Exec:
			bad.add("--%s does not apply to --protocol %v: leave it out, or use -p frames, lambda or http", name, o.protocol)
		case o.batch.Max == 0:
			bad.add("--%s needs --batch-max N, the maximum number of tasks of a call", name)
		}
	}
	if o.batch.Shape == process.ShapeSQS && o.protocol != process.Lambda {
		bad.add("--batch-shape sqs is for --protocol lambda: use list")
	}
}

// check checks flags that depend on each other, and completes o.
func (o *options) check(set *pflag.FlagSet, bad *faults) {
	o.checkCommand(bad)
	o.checkInput(bad)
	if o.max > 0 && o.min > o.max {
		bad.add("--min %d is more than --max %d", o.min, o.max)
	}
	if o.task != "" && o.protocol == process.Lines {
		bad.add("--task is for --protocol frames (and exec, where it sets the variable TASK_NAME): a filter has no named tasks")
	}
	for _, name := range []string{"concurrency", "path", "ready"} {
		if set.Changed(name) && o.protocol != process.HTTP && (name != "concurrency" || o.protocol != process.Lambda) {
			bad.add("--%s does not apply to --protocol %v: leave it out, or use -p http", name, o.protocol)
		}
	}
	o.checkBatch(set, bad)
	if o.null && o.json {
		bad.add("--null and --json exclude each other: JSON has no NUL bytes; use one value per line")
	}
	if o.json && o.files {
		bad.add("--json and --files exclude each other: file names are not JSON")
	}
	if o.failFast && set.Changed("halt") {
		bad.add("--fail-fast and --halt exclude each other: --fail-fast means --halt 1")
	}
	if o.resume && o.joblog == "" {
		bad.add("--resume needs --joblog FILE: the log records what has been done")
	}
	if o.bar || o.eta {
		if o.progress == "never" {
			bad.add("--bar and --eta show progress, which --progress never turns off")
		}
		o.progress = "always"
	}
	if o.dryRun {
		o.results, o.joblog, o.resume = "", "", false
	}
	o.joblogShort = o.joblogInput || !set.Changed("joblog-input")
	o.checkSandbox(bad)
	if o.maxLine > math.MaxInt32 {
		bad.add("--max-line: the maximum is 2 GiB less one byte")
	}
	for _, e := range o.env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsRune(e, 0) {
			bad.add("--env %q: use NAME=VALUE, or NAME to pass the variable on", e)
		}
	}
	if o.dir != "" {
		if info, err := os.Stat(o.dir); err != nil {
			bad.add("--dir: %w", err)
		} else if !info.IsDir() {
			bad.add("--dir %q is not a directory", o.dir)
		}
	}
	if o.failFast {
		o.halt = failures(1)
	}
	if o.max == 0 {
		o.max = max(runtime.GOMAXPROCS(0), o.min)
	}
}

// checkSandbox checks the flags for --sandbox strict.
func (o *options) checkSandbox(bad *faults) {
	if o.sandbox != process.ProfileStrict && (len(o.allow) > 0 || o.network || o.bestEffort) {
		bad.add("--allow, --network and --best-effort need --sandbox strict: other sandboxes do not restrict files or network")
	}
	for _, entry := range o.allow {
		path := strings.TrimSuffix(entry, ":ro")
		if !filepath.IsAbs(path) {
			path = filepath.Join(o.dir, path)
		}
		if _, err := os.Stat(path); err != nil {
			bad.add("--allow %q: %w", entry, err)
		}
	}
}

// byName reports whether the line itself is passed on although it names a file: the
// command uses the name in place of {}.
func (o *options) byName() bool {
	return o.files && o.template != nil && o.template.Input()
}

// ahead returns the maximum number of tasks between reading and writing.
func (o *options) ahead() int {
	inHand := process.MaxWindow
	if o.window > 0 {
		inHand = o.window
	}
	if o.protocol == process.Exec {
		inHand = 1
	}
	return o.queue + o.max*inHand
}

// config returns the configuration of the pool.
func (o *options) config() process.Config {
	c := process.Config{
		Command: o.command, Protocol: o.protocol, Min: o.min, Max: o.max, Spare: o.spare, Idle: o.idle,
		Queue:  o.ahead(), // submitting never blocks: the run bounds what is read
		Window: o.window, Grace: o.grace, Env: o.env, Dir: o.dir, Nice: o.nice, CPUs: o.cpus,
		Limits:  bullpen.Limits{Timeout: o.timeout, Output: int(o.maxLine), Memory: o.memory, CPU: o.cpu},
		Recycle: process.Recycle{Tasks: o.recycleTasks, Memory: o.recycleMemory},
		NUL:     o.null && o.protocol == process.Lines,
		PIDs:    o.pids, Preload: o.preload, Batch: o.batch,
		Sandbox: process.Sandbox{Profile: o.sandbox, Allow: o.allow, Network: o.network, BestEffort: o.bestEffort},
	}
	switch o.protocol {
	case process.Exec:
		c.Arguments = o.arguments
	case process.HTTP:
		c.Concurrency, c.HTTP = o.concurrency, o.http
	case process.Lambda:
		c.Concurrency = o.concurrency
	default:
	}
	if o.envAll {
		for _, e := range os.Environ() {
			if name, _, _ := strings.Cut(e, "="); name != "" { // Windows has entries without a name
				c.Env = append(c.Env, name)
			}
		}
	}
	if o.nice == 0 {
		c.Nice = process.HostNice
	}
	if o.idle == 0 {
		c.Idle = time.Nanosecond // immediately; 0 would be the default
	}
	if o.grace == 0 {
		c.Grace = time.Nanosecond
	}
	return c
}
