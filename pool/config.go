package pool

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Overflow is the rule for a task that finds its queue full.
type Overflow uint8

// The overflow rules.
const (
	// Block waits for a free place until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded immediately.
	Reject
	// DropOldest drops the oldest waiting task of the lowest priority to make room. The
	// dropped task ends with bullpen.ErrOverloaded.
	DropOldest
	// CallerRuns runs the task in the caller's goroutine, which can submit nothing else in
	// the meantime.
	CallerRuns
)

var overflowNames = [...]string{Block: "block", Reject: "reject", DropOldest: "drop oldest", CallerRuns: "caller runs"}

// String returns the name of o.
func (o Overflow) String() string {
	if int(o) < len(overflowNames) {
		return overflowNames[o]
	}
	return fmt.Sprintf("overflow(%d)", uint8(o))
}

// Defaults of a Config. The default of Max is twice GOMAXPROCS; [Stats] reports the value
// used.
const (
	DefaultIdle       = 10 * time.Second
	DefaultQueue      = 1024
	DefaultGrace      = 500 * time.Millisecond
	DefaultCloseGrace = 5 * time.Second
	DefaultStuck      = 64
)

// Config configures a pool. The zero value is valid.
type Config struct {
	// Name is used in logs, errors and metrics; empty means "pool".
	Name string
	// Min is the number of workers that always run, 0 to Max.
	Min int
	// Max is the maximum number of workers; 0 means twice GOMAXPROCS.
	Max int
	// Idle is how long a worker above Min waits for a task before it exits; 0 means
	// DefaultIdle.
	Idle time.Duration

	// Queue is how many tasks may wait; 0 means DefaultQueue. In addition, a worker that
	// runs tasks of a few microseconds may have taken up to 15 tasks in advance.
	Queue int
	// Overflow is the rule for a full queue. The zero value is Block.
	Overflow Overflow

	// Timeout is the maximum run time of tasks with a context, unless their submitter or lane
	// sets another one; 0 means none.
	Timeout time.Duration
	// Grace is how long a canceled task may keep running before its caller gets the outcome and
	// its worker is replaced; 0 means DefaultGrace.
	Grace time.Duration
	// CloseGrace is how long Close waits for tasks to end; 0 means
	// DefaultCloseGrace.
	CloseGrace time.Duration
	// Stuck is how many bodies that have overrun may keep running in addition to Max working ones;
	// 0 means DefaultStuck, and a negative value none. Bodies beyond that keep occupying
	// their workers until they return.
	Stuck int

	// Spin lets a caller that waits for a result poll for some microseconds before it
	// blocks: results arrive faster, at the cost of processor time.
	Spin bool
	// Help lets a caller that waits for a task run the task itself if it has not started.
	// So in addition to the workers, each such caller may run one task. Callers do not run
	// delayed tasks and tasks of lanes.
	Help bool

	// Handlers are the handlers for [Pool.Submit], by task name. They may be nil if the
	// pool is not used as a bullpen.Executor.
	Handlers map[string]bullpen.Handler
	// Output is the maximum size of a handler's result in bytes; 0 means no limit.
	Output int

	// Logger receives the pool's events; nil means none. If it is too slow, events are
	// counted and dropped.
	Logger *slog.Logger
}

// check returns an error that lists all faults of c.
func (c *Config) check() error {
	var errs []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Min >= 0, "Min is %d: use 0 or more workers", c.Min)
	fault(c.Max >= 0, "Max is %d: use a positive number of workers, or 0 for twice GOMAXPROCS", c.Max)
	fault(c.Max <= mostWorkers, "Max is %d: a pool can have at most %d workers", c.Max, mostWorkers)
	if c.Max > 0 {
		fault(c.Min <= c.Max, "Min is %d and Max is %d: Min must not be larger than Max", c.Min, c.Max)
	} else {
		fault(c.Min <= mostWorkers, "Min is %d: a pool can have at most %d workers", c.Min, mostWorkers)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		zero  string
	}{
		{"Idle", c.Idle, "the default"}, {"Timeout", c.Timeout, "none"},
		{"Grace", c.Grace, "the default"}, {"CloseGrace", c.CloseGrace, "the default"},
	} {
		fault(d.value >= 0, "%s is %v: use a positive duration, or 0 for %s", d.name, d.value, d.zero)
	}
	fault(c.Queue >= 0, "Queue is %d: use a positive number of tasks, or 0 for %d", c.Queue, DefaultQueue)
	fault(c.Overflow <= CallerRuns, "Overflow is %d: use Block, Reject, DropOldest or CallerRuns", c.Overflow)
	fault(c.Output >= 0, "Output is %d: use a positive number of bytes, or 0 for none", c.Output)
	for name, h := range c.Handlers {
		fault(name != "", "Handlers has one without a name")
		fault(h != nil, "Handlers has nil for %q", name)
	}
	return errors.Join(errs...)
}

// complete fills in the defaults.
func (c *Config) complete() {
	orDefault := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	if c.Name == "" {
		c.Name = "pool"
	}
	if c.Max == 0 {
		c.Max = max(2*runtime.GOMAXPROCS(0), c.Min)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	switch {
	case c.Stuck == 0:
		c.Stuck = DefaultStuck
	case c.Stuck < 0:
		c.Stuck = 0
	}
	orDefault(&c.Idle, DefaultIdle)
	orDefault(&c.Grace, DefaultGrace)
	orDefault(&c.CloseGrace, DefaultCloseGrace)
}
