package process

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Protocol says how a pool talks to its workers.
type Protocol uint8

const (
	// Frames is Bullpen's own protocol (protocol/SPEC.md), spoken by the worker
	// SDKs.
	Frames Protocol = iota
	// Lines writes each payload as a line to the worker's standard input and
	// takes one line of its standard output as the result.
	Lines
	// Exec starts one process a task: payload on standard input, result on
	// standard output, failed when the exit status is not 0. An argument {} of
	// the command, or {} within one, stands for the payload; then standard
	// input is empty.
	Exec
)

var protocolNames = []string{Frames: "frames", Lines: "lines", Exec: "exec"}

// String returns the word for p.
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// ParseProtocol returns the protocol that word names.
func ParseProtocol(word string) (Protocol, error) {
	if i := slices.Index(protocolNames, word); i >= 0 {
		return Protocol(i), nil
	}
	return 0, fmt.Errorf("unknown protocol %q: use %s", word, strings.Join(protocolNames, ", "))
}

// Overflow says what Submit does when the queue is full.
type Overflow uint8

const (
	// Block waits for a place until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded at once.
	Reject
	// DropOldest takes the place of the task that waits longest, which ends
	// with bullpen.ErrOverloaded.
	DropOldest
)

// Defaults of a Config.
const (
	DefaultIdle         = 10 * time.Second
	DefaultQueue        = 1024
	DefaultGrace        = 500 * time.Millisecond
	DefaultCloseGrace   = 5 * time.Second
	DefaultStartTimeout = 30 * time.Second
	DefaultPing         = 15 * time.Second
	// DefaultNice is what "below normal" is as a nice value (nice(2)).
	DefaultNice   = 10
	DefaultOutput = 64 << 20
	DefaultArena  = 64 << 20
	// MaxWindow is the most tasks that a worker has in hand by itself. It must be
	// a power of two.
	MaxWindow = 128
)

// HostNice gives workers the priority of the host.
const HostNice = math.MinInt

// Config says how a pool works. Only Command is needed; [Pool.Config] tells what
// the rest became.
type Config struct {
	// Name of the pool in logs and events; the command's name unless set.
	Name string
	// Command is the program of the workers and its arguments. The program is
	// looked up once, in Dir or the host's PATH.
	Command []string
	// Protocol that the workers speak.
	Protocol Protocol

	// Min workers are started by New and kept; 0 starts the first with the first
	// task. Max is the most at a time; 0 means as many as there are
	// processors for this process (runtime.GOMAXPROCS), and at least Min.
	Min, Max int
	// Spare workers are kept warm beyond those that are busy, within Max.
	Spare int
	// Idle is how long a worker beyond Min and Spare stays without work;
	// 0 means 10 s, negative for ever.
	Idle time.Duration
	// Queue is the most tasks that wait; 0 means 1024. Tasks that a worker has
	// in hand do not count.
	Queue int
	// Overflow is what Submit does when the queue is full.
	Overflow Overflow
	// Window is the most tasks in hand of one worker; 0 means 1 to 128, chosen
	// from the measured run time. A worker that runs several handlers at a
	// time has at least so many.
	Window int

	// Limits of every task that has none of its own. Output is 64 MiB unless
	// set.
	Limits bullpen.Limits
	// Grace is the time between asking a task to end and killing its worker;
	// 0 means 500 ms. Workers that cannot be asked are killed at once.
	Grace time.Duration
	// CloseGrace bounds Close, and Drain and Stop after their context has
	// ended; 0 means 5 s.
	CloseGrace time.Duration
	// StartTimeout bounds the time from start to ready; 0 means 30 s.
	StartTimeout time.Duration
	// Ping is how often an idle worker is asked whether it lives, with Frames;
	// 0 means 15 s, negative never. One that does not answer in the same time is
	// replaced.
	Ping time.Duration
	// Recycle says when workers are replaced by plan.
	Recycle Recycle

	// Env is the environment of the workers, by allow-list: "NAME=value" sets,
	// "NAME" passes the host's value on. PATH, HOME, LANG, TMPDIR and TZ are
	// always passed on unless set here.
	Env []string
	// Dir is the working directory; empty means the host's.
	Dir string
	// Nice is the priority of workers as a nice value; 0 means 5, below
	// normal, so that the host stays quick. HostNice means the host's own.
	Nice int
	// CPUs are the processors that workers may use; empty means all.
	CPUs []int
	// Arena is the shared memory of one worker in bytes, half for requests and
	// half for replies; what is not touched costs nothing. 0 means 64 MiB,
	// negative none.
	Arena int
	// NUL separates lines by NUL bytes, with the protocol Lines.
	NUL bool

	// Logger gets the pool's events and the workers' output; nil means none.
	Logger *slog.Logger
}

// Recycle says when a worker is replaced by plan: its successor is started
// first, its tasks are finished. Zero fields never replace. Each bound is
// varied by up to Jitter so that workers of one age do not leave together.
type Recycle struct {
	// Tasks is the number of tasks after which a worker is replaced.
	Tasks int
	// Age is the time after which a worker is replaced.
	Age time.Duration
	// Memory is the resident size in bytes above which a worker is replaced,
	// seen when it idles, largest first. It is soft: a task may exceed it.
	Memory int64
	// Jitter is the largest part by which bounds vary, 0 to 1; 0 means 0.1,
	// negative none.
	Jitter float64
}

// resolved is a Config that has been checked and completed.
type resolved struct {
	Config
	path string   // of the program, absolute
	env  []string // complete
}

func resolve(c Config) (*resolved, error) {
	r := &resolved{Config: c}
	err := errors.Join(r.checkCommand(), r.checkSize(), r.checkTimes(), r.checkRest())
	if err != nil {
		return nil, fmt.Errorf("process: the configuration has faults:\n%w", err)
	}
	r.complete()
	return r, nil
}

func (r *resolved) checkCommand() error {
	if len(r.Command) == 0 || r.Command[0] == "" {
		return errors.New("Command is empty: name the program of the workers and its arguments")
	}
	if r.Protocol > Exec {
		return fmt.Errorf("Protocol is %d: use Frames, Lines or Exec", r.Protocol)
	}
	if r.Dir != "" {
		if info, err := os.Stat(r.Dir); err != nil {
			return fmt.Errorf("Dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("Dir %q is not a directory", r.Dir)
		}
	}
	name := r.Command[0]
	if r.Dir != "" && strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(r.Dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("Command: %w", err)
	}
	if r.path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("Command: %w", err)
	}
	return nil
}

func (r *resolved) checkSize() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Min < 0 {
		bad("Min is %d: use 0 or more workers", r.Min)
	}
	if r.Max < 0 {
		bad("Max is %d: use 1 or more workers, or 0 for one a processor", r.Max)
	}
	if r.Max > 0 && r.Max < r.Min {
		bad("Max is %d and Min is %d: Max must not be below Min", r.Max, r.Min)
	}
	if r.Spare < 0 {
		bad("Spare is %d: use 0 or more workers", r.Spare)
	}
	if r.Queue < 0 {
		bad("Queue is %d: use 1 or more tasks, or 0 for %d", r.Queue, DefaultQueue)
	}
	if r.Overflow > DropOldest {
		bad("Overflow is %d: use Block, Reject or DropOldest", r.Overflow)
	}
	if r.Window < 0 || r.Window > maxFlight {
		bad("Window is %d: use 1 to %d tasks, or 0 to choose by run time", r.Window, maxFlight)
	}
	return errors.Join(errs...)
}

func (r *resolved) checkTimes() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Grace", r.Grace}, {"CloseGrace", r.CloseGrace}, {"StartTimeout", r.StartTimeout}, {"Recycle.Age", r.Recycle.Age},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: use a positive duration, or 0 for the default", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}

func (r *resolved) checkRest() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := r.Limits.Check(); err != nil {
		errs = append(errs, err)
	}
	if r.Limits.Memory > 0 || r.Limits.CPU > 0 {
		bad("Limits.Memory and Limits.CPU cannot be kept by this pool: leave them 0 (Recycle.Memory replaces workers that grow)")
	}
	if r.Limits.Output > math.MaxInt32 {
		bad("Limits.Output is %d: the most is %d bytes", r.Limits.Output, math.MaxInt32)
	}
	if r.Recycle.Tasks < 0 || r.Recycle.Memory < 0 || r.Recycle.Jitter > 1 {
		bad("Recycle has Tasks %d, Memory %d, Jitter %g: use 0 or more, and a Jitter up to 1", r.Recycle.Tasks, r.Recycle.Memory, r.Recycle.Jitter)
	}
	if r.Nice != HostNice && (r.Nice < -20 || r.Nice > 19) {
		bad("Nice is %d: use -20 to 19, or HostNice", r.Nice)
	}
	for _, cpu := range r.CPUs {
		if cpu < 0 {
			bad("CPUs has %d: processors are numbered from 0", cpu)
		}
	}
	for _, e := range r.Env {
		if e == "" || strings.HasPrefix(e, "=") || strings.ContainsRune(e, 0) {
			bad("Env has %q: use NAME=value, or NAME to pass the host's value on", e)
		}
	}
	if r.NUL && r.Protocol != Lines {
		bad("NUL is for the protocol Lines only")
	}
	return errors.Join(errs...)
}

func (r *resolved) complete() {
	fill := func(d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
	}
	fill(&r.Idle, DefaultIdle)
	fill(&r.Grace, DefaultGrace)
	fill(&r.CloseGrace, DefaultCloseGrace)
	fill(&r.StartTimeout, DefaultStartTimeout)
	fill(&r.Ping, DefaultPing)
	if r.Name == "" {
		r.Name = filepath.Base(r.Command[0])
	}
	if r.Max == 0 {
		r.Max = max(runtime.GOMAXPROCS(0), r.Min)
	}
	if r.Queue == 0 {
		r.Queue = DefaultQueue
	}
	if r.Limits.Output == 0 {
		r.Limits.Output = DefaultOutput
	}
	if r.Nice == 0 {
		r.Nice = DefaultNice
	}
	if r.Arena == 0 {
		r.Arena = DefaultArena
	}
	if r.Recycle.Jitter == 0 {
		r.Recycle.Jitter = 0.1
	}
	r.Recycle.Jitter = max(r.Recycle.Jitter, 0)
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	r.env = environment(r.Env)
}

// passed are the variables that programs need to run at all.
var passed = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "SYSTEMROOT", "TEMP", "TMP"}

func environment(allow []string) []string {
	var env []string
	have := map[string]bool{}
	for _, e := range allow {
		name, _, set := strings.Cut(e, "=")
		if !set {
			value, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			e = name + "=" + value
		}
		if !have[name] {
			have[name] = true
			env = append(env, e)
		}
	}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok && !have[name] {
			env = append(env, name+"="+value)
		}
	}
	return env
}
