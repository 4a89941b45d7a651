package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/internal/daemon"
	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

const serveLong = `Serve runs the daemon: pools of worker processes that take jobs from durable queues,
and an HTTP API to submit jobs, to wait for their results and to manage them.

By default jobs are kept in a folder on this machine. An accepted job survives a
crash of the workers, of the daemon and of the machine. Without a configuration the
daemon has no pools; --help-config prints all settings. The configuration file is
--config, else the file that $BULLPEN_CONFIG names, else bullpen.yaml in the working
directory if it exists. Variables such as BULLPEN_HTTP_LISTEN override the file, and
flags override both.

Signals: SIGTERM and SIGINT stop the daemon: it accepts no more jobs, returns jobs
that have not started to their queues, and lets running ones end within the grace
time. A second signal aborts these; they run again after the next start. SIGHUP reloads
the configuration, as does bullpen reload: new workers are ready before old ones end,
and a faulty configuration changes nothing.

Exit status: 0 stopped by a signal; 1 a part of the daemon failed, or with --check
--start a worker; 2 wrong usage or configuration; 3 the queue or an address could not
be opened; 130 aborted.`

const serveExample = `  # jobs in ./bullpen-data, API at http://127.0.0.1:8650, pools as in ./bullpen.yaml
  bullpen serve

  # report all faults of a configuration, with file and line
  bullpen serve --config /etc/bullpen/bullpen.yaml --check

  # the same, and check that the workers start
  bullpen serve --check --start

  # jobs on a NATS server
  bullpen serve --url nats://nats.internal:4222 --node worker-7`

// serveFlags are the flags of serve that are also settings, with their keys.
var serveFlags = []struct{ name, key, kind, usage string }{
	{"listen", "http.listen", "ADDR", "address of the API (host:port)"},
	{"tokens", "http.tokens", "FILE", "file with the tokens of callers"},
	{"dir", "queue.dir", "DIR", "folder for the jobs"},
	{"url", "queue.url", "URL", "NATS server for the jobs, instead of a folder; use queue.credentials or BULLPEN_QUEUE_URL for a user and password, which ps would show here"},
	{"node", "node", "NAME", "name of this daemon in the records of jobs"},
	{"grace", "grace", "TIME", "how long running tasks may continue after SIGTERM"},
	{"log-level", "log.level", "LEVEL", "debug, info, warn or error"},
	{"log-format", "log.format", "FORMAT", "text or json"},
}

// serve is one call of the command.
type serve struct {
	config   string // --config
	file     string // the configuration file; empty for none; fixed at the start
	check    bool
	start    bool // --start, for check
	help     bool
	settings map[string]*text // by key
	stdout   io.Writer
	stderr   io.Writer
	say      func(string) // prints a message for people
}

// text is a flag whose kind is shown in the help.
type text struct{ value, kind string }

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.kind }

func newServe(stdout, stderr io.Writer) *cobra.Command {
	s := &serve{settings: map[string]*text{}, stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the daemon: durable queues, pools of workers, HTTP API",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return s.run() },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&text{kind: "FILE"}, "config", "configuration file")
	f.BoolVar(&s.check, "check", false, "check the configuration and exit")
	f.BoolVar(&s.start, "start", false, "with --check, also start one worker of each pool and report the result")
	f.BoolVar(&s.help, "help-config", false, "print all settings and exit")
	for _, flag := range serveFlags {
		s.settings[flag.key] = &text{kind: flag.kind}
		f.Var(s.settings[flag.key], flag.name, flag.usage)
	}
	cmd.PreRun = func(*cobra.Command, []string) { s.config = f.Lookup("config").Value.String() }
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	return cmd
}

// defaultConfig is the configuration file that is read if none is named.
const defaultConfig = "bullpen.yaml"

// path returns the configuration file; empty for none.
func (s *serve) path() string {
	if s.config != "" {
		return s.config
	}
	if named := os.Getenv("BULLPEN_CONFIG"); named != "" {
		return named
	}
	if _, err := os.Stat(defaultConfig); err == nil || !errors.Is(err, os.ErrNotExist) {
		return defaultConfig
	}
	return ""
}

// load reads the configuration.
func (s *serve) load() (*settings.Settings, error) {
	flags := map[string]string{}
	for key, t := range s.settings {
		flags[key] = t.value
	}
	return settings.Load(settings.Source{Path: s.file, Env: os.Environ(), Flags: flags, CheckTokens: access.CheckTokens})
}

// again reads the configuration again.
func (s *serve) again() (*settings.Settings, error) {
	if s.file == "" {
		return nil, settings.Faults{{File: "configuration", Text: "cannot reload: the daemon was started without a configuration file: write " +
			defaultConfig + " and restart, or start with --config FILE"}}
	}
	return s.load()
}

func (s *serve) run() error {
	s.file = s.path()
	if s.help {
		_, err := io.WriteString(s.stdout, settings.Reference())
		return err
	}
	if s.start && !s.check {
		fmt.Fprintln(s.stderr, "bullpen: --start needs --check: use both, or neither to serve")
		return status(exitUsage)
	}
	c, err := s.load()
	if err != nil {
		fmt.Fprintf(s.stderr, "%v\n", err)
		return status(exitUsage)
	}
	if s.check {
		return s.checked(c)
	}
	log, err := logs.New(logs.Config{Writer: s.stderr, JSON: c.Log.JSON, Level: c.Log.Level})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = log.Close(ctx) // a reader that does not read the log has lost it
	}()
	return s.serve(c, log)
}

// serve runs the daemon until it has ended.
func (s *serve) serve(c *settings.Settings, log *logs.Log) error {
	logger := slog.New(log.Handler())
	s.say = func(text string) {
		if c.Log.JSON { // the log is for programs
			logger.Info("bullpen serve", "says", text)
			return
		}
		fmt.Fprintln(s.stderr, "bullpen: "+text)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	opening, opened := context.WithCancel(context.Background())
	defer opened()
	ended := make(chan struct{})
	ready := make(chan *daemon.Daemon, 1)
	watched := make(chan struct{})
	go func() { // ends by ended; waited for below
		defer close(watched)
		s.obey(signals, c.Grace, opened, ready, ended)
	}()
	defer func() { close(ended); <-watched }()

	d, err := daemon.New(opening, daemon.Config{
		Settings: c, Load: s.again, Logger: logger, LogLost: log.Dropped, Version: version(),
	})
	if err != nil {
		return s.notOpened(err, opening.Err() != nil)
	}
	ready <- d
	s.say(greeting(c, d))
	tending := make(chan struct{})
	go func() { // ends with opening; waited for below
		defer close(tending)
		tendHeap(opening)
	}()
	defer func() { opened(); <-tending }()
	err = d.Run(context.Background())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, daemon.ErrAborted):
		s.say("aborted; tasks that were running run again after the next start")
		return status(exitInterrupted)
	}
	s.say(err.Error())
	return status(exitFailed)
}

// notOpened reports why the daemon did not start.
func (s *serve) notOpened(err error, interrupted bool) error {
	if interrupted {
		s.say("stopped before it could serve")
		return nil
	}
	s.say(err.Error())
	var open *daemon.OpenError
	if errors.As(err, &open) {
		return status(exitStart)
	}
	return status(exitUsage)
}

// obey handles signals until ended is closed: the first one stops the daemon, the
// second one aborts, and SIGHUP reloads the configuration.
func (s *serve) obey(signals <-chan os.Signal, grace time.Duration, giveUp func(), ready <-chan *daemon.Daemon, ended <-chan struct{}) {
	var d *daemon.Daemon
	again, stopped := false, false
	var reloads reloader
	defer reloads.end()
	for {
		select {
		case <-ended:
			return
		case d = <-ready:
			reloads.begin(d)
			if again {
				reloads.ask()
			}
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP && d == nil:
				again = true
			case sig == syscall.SIGHUP:
				reloads.ask()
			case d == nil:
				giveUp()
			case stopped:
				d.Close()
			default:
				stopped = true
				s.say(fmt.Sprintf("stopping: running tasks may take up to %v; another signal aborts them", grace))
				d.Stop()
			}
		}
	}
}

func orNone(path string) string {
	if path == "" {
		return "no configuration file"
	}
	return path
}

// poolsOf describes the pools of c: their number and names.
func poolsOf(c *settings.Settings) string {
	names := slices.Sorted(maps.Keys(c.Pools))
	switch len(names) {
	case 0:
		return "no pools"
	case 1:
		return "1 pool: " + names[0]
	}
	return fmt.Sprintf("%d pools: %s", len(names), strings.Join(names, ", "))
}

// greeting returns the message for a daemon that has started.
func greeting(c *settings.Settings, d *daemon.Daemon) string {
	scheme := "http"
	if c.HTTP.Cert != "" {
		scheme = "https"
	}
	line := fmt.Sprintf("version %s, API at %s://%v, jobs in %v, %s", version(), scheme, d.Addr(), c.Store, poolsOf(c))
	if a := d.LambdaAddr(); a != nil {
		line += fmt.Sprintf(", Lambda functions at %s://%v", scheme, a)
	}
	if a := d.ProbesAddr(); a != nil {
		line += fmt.Sprintf(", probes at http://%v", a)
	}
	if len(c.Pools) == 0 {
		line += fmt.Sprintf("\nThere are no pools yet: add one to %s and restart, for example\n\n"+
			"  pools:\n"+
			"    upper:\n"+
			"      command: [sed, -u, 's/.*/\\U&/']\n"+
			"      protocol: lines\n\n"+
			"then: bullpen submit upper hello --wait", defaultConfig)
	}
	return line
}
