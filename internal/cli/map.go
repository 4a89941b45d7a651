package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/internal/level"
)

const mapLong = `Map reads tasks, one per line, from standard input, from -a FILE, or from the arguments
after :::. It runs them in an elastic pool of worker processes, which stay warm between
tasks, and writes one result per task: as tasks end, or in the order of the input with
-k. A failure is reported on standard error and does not stop other tasks.

Workers speak one of five protocols (-p):

  lines   any filter that answers each line with one line, such as jq, sed or
          your own loop. It must not hold its output back: use sed -u,
          grep --line-buffered, jq --unbuffered, python3 -u, stdbuf -oL.
  frames  programs that use a worker SDK (Go, Python). Payloads may be binary;
          what workers print does not disturb their results.
  exec    one process per task: the task is its standard input, or replaces {}
          in the command; an exit status other than 0 is a failure. As in GNU
          parallel, {.} is the line without extension, {/} without folder, {//}
          the folder, {/.} the bare name, {#} the number of the task, {%} the
          slot, {1} a column (--colsep, -n). No shell is involved: write
          sh -c '... "$1" ...' _ {} where you need one. With -I {} or --literal
          other text in braces is passed unchanged.
  lambda  functions of AWS Lambda with one of its runtime clients: each line is
          the event of an invocation, as JSON.
  http    web servers that listen on the port in the variable PORT: each line is
          the body of a POST. 2xx is a result; 429 and 503 try again later;
          other statuses are failures.

With --batch-max N a worker gets up to N tasks in one call (frames, lambda, http): as a
JSON array, which it answers with an array of as many results, where {"error": "TEXT"}
is a failure; or, with --batch-shape sqs, as the event that AWS Lambda makes of messages
of an SQS queue. Each task keeps its own outcome.

Workers get only the variables PATH, HOME, LANG, TMPDIR and TZ and those named with
--env, and each has its own temporary folder. They and all their child processes end
with bullpen, even if it is killed (see bullpen doctor). --memory, --pids and --cpu
limit each worker, --sandbox strict isolates it from files and network, and --preload
makes Python workers start many times faster.

Memory stays bounded for input of any length: map holds at most --queue tasks and
64 MiB of tasks and results, and then stops reading until there is room.

Each line of --joblog is a JSON object: index (position in the input, from 1), hash
(of the task's bytes), name (of the file), input and command (where they are
short, see --joblog-input), outcome, attempts, waited and ran
(seconds), worker, exit, signal, error, start, end. --resume skips tasks that ended
well; a task whose result was written just before bullpen was killed may run again.

Exit status: 0 all tasks ended well; 1 some failed; 2 wrong usage, or the job log is
of other input; 3 the workers could not start; 130 interrupted (the first Ctrl-C
finishes running tasks, the second aborts them); 141 the output was closed.`

const mapExample = `  # one line in, one line out, in order, through four warm processes
  bullpen map -k -j 4 -- jq -c --unbuffered '{ip, status}' < access.log

  # files through Python workers that keep their model loaded; resumes after a stop
  ls photos/*.jpg | bullpen map --files -j 8 -p frames -t thumbnail \
      --results thumbs --joblog log.jsonl --resume -- python3 thumbnails.py

  # a process per task, at most 10 s each, tried up to three times
  bullpen map -p exec --timeout 10s --retries 2 -- curl -sf {} < urls.txt

  # untrusted code: at most 512 MiB and half a processor, no files, no network
  bullpen map -p exec --sandbox strict --memory 512M --pids 50 --cpu 0.5 \
      --allow ./scripts:ro -- sh ./scripts/check.sh {} < submissions.txt

  # file names with any characters
  find . -name '*.flac' -print0 | bullpen map -0 -p exec -- ffmpeg -i {} -y {.}.ogg

  # all combinations; print the commands without running them
  bullpen map -p exec --dry-run -- convert {1} -resize {2} {1/.}-{2}.png ::: *.jpg ::: 100 800

  # everything about each task as JSON
  bullpen map -o json --tag -- ./check < hosts.txt | jq 'select(.outcome != "ok")'`

func newMap(stdin io.Reader, stdout, stderr *os.File) *cobra.Command {
	var o options
	var bad faults
	cmd := &cobra.Command{
		Use:     "map [flags] -- COMMAND [ARG...] [::: TASK...]",
		Version: version(),
		Short:   "Run each line of standard input as a task, through warm worker processes",
		Long:    mapLong,
		Example: mapExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.command, o.lists, err = cutLists(args); err != nil {
				bad.add("%w", err)
			}
			o.check(cmd.Flags(), &bad)
			if len(bad) > 0 {
				return errors.Join(bad...)
			}
			if code := mapMain(&o, stdin, stdout, stderr); code != exitOK {
				return status(code)
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	o.define(cmd.Flags(), &bad)
	complete := func(flag string, words ...string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	complete("protocol", "lines", "frames", "exec", "lambda", "http")
	complete("batch-shape", "list", "sqs")
	complete("sandbox", "none", "default", "strict")
	complete("output", "text", "json")
	complete("progress", "auto", "always", "never")
	return cmd
}

// mapMain sets up a run, runs it, and returns the exit status.
func mapMain(o *options, stdin io.Reader, stdout, stderr *os.File) int {
	o.fewProcessors()
	o.forbidGains()
	say := newScreen(stderr, o.progress)
	r := &run{
		options: o, flow: newFlow(o.ahead()), screen: say,
		outcomes: map[string]int64{}, stopped: make(chan struct{}), abort: func() {},
	}
	config := o.config()
	config.Logger = slog.New(&logHandler{screen: say, verbose: o.verbose})
	var err error
	if r.pool, err = level.New(config); err != nil {
		code, text := faultOf(o, err)
		say.print(text)
		return code
	}
	in, done, err := o.sources(stdin)
	if err == nil {
		defer done()
		r.out, err = newWriter(o, say.results(stdout))
	}
	if err == nil && o.joblog != "" {
		r.log, err = openJoblog(o)
		r.timed = true
	}
	if err != nil {
		say.print(fmt.Sprintf("bullpen: %v\n", err))
		_ = r.pool.Close() // nothing has started
		return exitUsage
	}
	say.print(o.adviseEnv())
	return r.do(in)
}

// faultOf explains why a pool cannot be created: its program is missing, or else the
// usage is wrong.
func faultOf(o *options, err error) (code int, text string) {
	if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return exitUsage, fmt.Sprintf("bullpen: %v\n", err)
	}
	name := o.command[0]
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("bullpen: the workers could not start: %s: permission denied; if it is a script: chmod +x %s, or name its interpreter\n", name, name)
	case !strings.ContainsAny(name, `/\`):
		text = fmt.Sprintf("bullpen: the workers could not start: %s: no such program in PATH\n", name)
		if strings.ContainsAny(name, " |<>;&") {
			text += fmt.Sprintf("This is one word; for a line of shell use: sh -c %q\n", name)
		} else if _, err := os.Stat(name); err == nil {
			text += fmt.Sprintf("There is a file of this name here: use ./%s\n", name)
		}
	default:
		text = fmt.Sprintf("bullpen: the workers could not start: %s: no such file\n", name)
	}
	return exitStart, text
}

// logHandler prints the pool's log records on the screen. Without verbose it prints
// only faults of the pool: what workers print is shown with their failures.
type logHandler struct {
	screen  *screen
	verbose bool
}

// Enabled reports whether records of the level are printed.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.verbose || level >= slog.LevelError
}

// Handle prints a record on one line: a worker's output after the worker's name,
// other records after the program's name.
func (h *logHandler) Handle(_ context.Context, rec slog.Record) error {
	var worker, stream, text string
	what := rec.Message
	var rest strings.Builder
	rec.Attrs(func(a slog.Attr) bool {
		switch value := a.Value.String(); {
		case a.Key == "worker":
			worker = value
		case a.Key == "stream":
			stream = value
		case a.Key == "text":
			text = value
		case a.Key == "event":
			what = value
		case value != "" && a.Key != "task":
			fmt.Fprintf(&rest, " %s=%s", a.Key, value)
		}
		return true
	})
	if text != "" && stream == "" {
		rest.WriteString(": " + text)
	}
	at := ""
	if h.verbose {
		at = rec.Time.Format("15:04:05.000 ")
	}
	switch {
	case stream != "" && !h.verbose:
	case stream != "":
		h.screen.print(fmt.Sprintf("%s[%s] %s\n", at, worker, printable(text)))
	case worker != "":
		h.screen.print(fmt.Sprintf("%sbullpen: worker %s: %s%s\n", at, worker, what, printable(rest.String())))
	default:
		h.screen.print(fmt.Sprintf("%sbullpen: %s%s\n", at, what, printable(rest.String())))
	}
	return nil
}

// WithAttrs does nothing: there is one pool, and its name is that of the command.
func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup does nothing: the pool uses no groups.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
