package wasm

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Mode is what happens to an instance between two tasks.
type Mode uint8

const (
	// Fresh makes a new instance for each task.
	Fresh Mode = iota
	// Restore keeps instances and puts back their memory after each task, where that puts
	// back everything that a task can change: the only mutable global of the module is its
	// stack pointer, no instruction changes a table, and no folder is mapped. For other
	// modules it is Fresh; see [Stats].
	Restore
	// Stateless keeps instances as they are. It is for modules that keep no state between
	// tasks and are trusted not to: what one task leaves in memory, the next one finds.
	Stateless
)

var modeNames = [...]string{Fresh: "fresh", Restore: "restore", Stateless: "stateless"}

// String returns the name of m.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode returns the mode with the name word.
func ParseMode(word string) (Mode, error) {
	for i, name := range modeNames {
		if name == word {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("unknown mode %q: use %s", word, strings.Join(modeNames[:], ", "))
}

// Overflow is what Submit does when the queue is full.
type Overflow uint8

const (
	// Block waits for a place in the queue until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded immediately.
	Reject
	// DropOldest drops the task that has waited longest, which ends with
	// bullpen.ErrOverloaded, and queues the new one.
	DropOldest
)

// Defaults of a Config. The default of Max is GOMAXPROCS.
const (
	DefaultIdle       = 10 * time.Second
	DefaultQueue      = 1024
	DefaultCloseGrace = 5 * time.Second
	DefaultOutput     = 64 << 20
)

// Config configures a pool. Only Code or Path is required.
type Config struct {
	// Name is the name of the pool in logs, errors and events; empty means the base name of
	// Path, or "wasm".
	Name string
	// Code is the module in the binary format. Path is the file that contains it. Set one of
	// them.
	Code []byte
	Path string
	// Tasks are the names of the tasks that the module serves. Nil means any name, and for
	// an Extism plug-in, whose functions the names select, all that it exports.
	Tasks []string
	// Mode is what happens to an instance between two tasks. A module that serves one task
	// and exits, which is what WASI calls a command, has a fresh instance for each.
	Mode Mode

	// Min is the number of idle instances that are kept, with the modes that keep instances.
	// Max is the most tasks that run at a time; 0 means GOMAXPROCS, or Min if that is larger.
	Min, Max int
	// Idle is how long an idle instance beyond Min is kept; 0 means 10 s.
	Idle time.Duration
	// Queue is the most tasks that wait; 0 means 1024.
	Queue int
	// Overflow is what Submit does when the queue is full.
	Overflow Overflow

	// Limits apply to every task that has none of its own. Memory bounds the linear memory
	// of an instance; without it, the bound is that of the format, 4 GiB. Output defaults
	// to 64 MiB. CPU cannot be limited: a task has one processor at the most.
	Limits bullpen.Limits
	// CloseGrace bounds Close, and Drain and Stop after their context has ended; 0 means
	// 5 s.
	CloseGrace time.Duration

	// Args are the arguments of a module that uses WASI. The name of the pool comes before
	// them, as the name of the program.
	Args []string
	// Env is the environment of a module that uses WASI, one NAME=value each. Nothing else
	// of the host's environment is passed on.
	Env []string
	// Mounts are the folders that a module which uses WASI can reach. Nil means no files.
	Mounts []Mount
	// Settings are what an Extism plug-in reads as its config.
	Settings map[string]string

	// CacheDir is the folder in which compiled modules are kept; empty means that each New
	// compiles. Its content is machine code that runs in this program: only its user may be
	// able to write there. New creates the folder, and refuses one that others can write to.
	CacheDir string

	// Logger receives what guests log and print; nil means none.
	Logger *slog.Logger
}

// Mount maps a folder of the host into instances.
type Mount struct {
	// Host is the folder of the host, Guest its absolute path inside; an empty Guest means
	// the same path as Host.
	Host, Guest string
	// Writable lets guests change the folder.
	Writable bool
}

// check returns an error that lists all faults of c.
func (c *Config) check() error {
	var errs []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault((len(c.Code) > 0) != (c.Path != ""), "set either Code, the module, or Path, the file that contains it")
	fault(c.Mode <= Stateless, "Mode is %d: use Fresh, Restore or Stateless", c.Mode)
	fault(c.Min >= 0, "Min is %d: use 0 or more instances", c.Min)
	fault(c.Max >= 0, "Max is %d: use a positive number of tasks, or 0 for GOMAXPROCS", c.Max)
	fault(c.Max == 0 || c.Min <= c.Max, "Min is %d and Max is %d: Min must not be larger than Max", c.Min, c.Max)
	fault(c.Idle >= 0, "Idle is %v: use a positive duration, or 0 for %v", c.Idle, DefaultIdle)
	fault(c.CloseGrace >= 0, "CloseGrace is %v: use a positive duration, or 0 for %v", c.CloseGrace, DefaultCloseGrace)
	fault(c.Queue >= 0, "Queue is %d: use a positive number of tasks, or 0 for %d", c.Queue, DefaultQueue)
	fault(c.Overflow <= DropOldest, "Overflow is %d: use Block, Reject or DropOldest", c.Overflow)
	errs = append(errs, c.Limits.Check())
	fault(c.Limits.CPU == 0, "limit CPU is %g: %s", c.Limits.CPU, noCPU)
	for _, name := range c.Tasks {
		fault(name != "", "Tasks has an empty name")
	}
	for _, pair := range c.Env {
		name, _, ok := strings.Cut(pair, "=")
		fault(ok && name != "" && !strings.ContainsRune(pair, 0), "Env has %q: use NAME=value, without NUL bytes", pair)
	}
	for _, arg := range c.Args {
		fault(!strings.ContainsRune(arg, 0), "Args has %q: leave out the NUL byte", arg)
	}
	for _, m := range c.Mounts {
		fault(m.Host != "", "a mount has no Host: set it to the folder to map")
		fault(m.Guest == "" || path.IsAbs(m.Guest), "the mount of %s is to be seen as %q: use an absolute path with slashes", m.Host, m.Guest)
		fault(m.Guest != "" || m.Host == "" || filepath.IsAbs(m.Host), "the mount %q has no Guest: set it, or use an absolute path", m.Host)
	}
	return errors.Join(errs...)
}

const noCPU = "the processor time of an instance cannot be limited: use a process pool"

// complete fills in the defaults.
func (c *Config) complete() {
	if c.Name == "" {
		c.Name = "wasm"
		if c.Path != "" {
			c.Name = strings.TrimSuffix(filepath.Base(c.Path), ".wasm")
		}
	}
	if c.Max == 0 {
		c.Max = max(runtime.GOMAXPROCS(0), c.Min)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.CloseGrace == 0 {
		c.CloseGrace = DefaultCloseGrace
	}
	if c.Limits.Output == 0 {
		c.Limits.Output = DefaultOutput
	}
	if c.Limits.Memory == 0 {
		c.Limits.Memory = most32
	}
}

// most32 is the largest memory that 32-bit addresses reach.
const most32 = 4 << 30
