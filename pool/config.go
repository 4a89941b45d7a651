package pool

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Overflow is what happens to a task for which a queue has no place.
type Overflow uint8

// The overflow rules.
const (
	// Block waits for a place until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded at once.
	Reject
	// DropOldest takes the place of the task that waits longest among those of
	// the lowest priority, which ends with bullpen.ErrOverloaded.
	DropOldest
	// CallerRuns runs the task in the goroutine of the caller, which so brings
	// no further task meanwhile.
	CallerRuns
)

var overflowNames = [...]string{Block: "block", Reject: "reject", DropOldest: "drop oldest", CallerRuns: "caller runs"}

// String returns the words for o.
func (o Overflow) String() string {
	if int(o) < len(overflowNames) {
		return overflowNames[o]
	}
	return fmt.Sprintf("overflow(%d)", uint8(o))
}

// Defaults of a Config. The default of Max is twice GOMAXPROCS; [Stats] shows
// what it came to.
const (
	DefaultIdle       = 10 * time.Second
	DefaultQueue      = 1024
	DefaultGrace      = 500 * time.Millisecond
	DefaultCloseGrace = 5 * time.Second
	DefaultStuck      = 64
)

// Config says what a pool is like. The zero value is a pool that works.
type Config struct {
	// Name is used in logs, errors and metrics; empty means "pool".
	Name string
	// Min workers are there at once and always, 0 to Max.
	Min int
	// Max workers run tasks at a time; 0 means twice GOMAXPROCS.
	Max int
	// Idle is how long a worker above Min waits for a task before it ends; 0
	// means DefaultIdle.
	Idle time.Duration

	// Queue is how many tasks may wait; 0 means DefaultQueue. Besides, each
	// worker that runs tasks of a few microseconds may have up to 15 of them in
	// hand.
	Queue int
	// Overflow is what happens when so many wait; the zero value is Block.
	Overflow Overflow

	// Timeout is the run time of tasks that get a context, unless their place or
	// their lane says otherwise; 0 means none.
	Timeout time.Duration
	// Grace is how long a task that was canceled may go on before its caller is
	// answered and its worker replaced; 0 means DefaultGrace.
	Grace time.Duration
	// CloseGrace is how long Close waits for tasks to end; 0 means
	// DefaultCloseGrace.
	CloseGrace time.Duration
	// Stuck is how many bodies that have overrun their time may run on beside
	// Max working ones; 0 means DefaultStuck, and negative none. Bodies beyond
	// that keep their worker's place until they return.
	Stuck int

	// Spin lets a caller who waits for a result look for it for some
	// microseconds before it parks: faster answers for processor time.
	Spin bool
	// Help lets a caller who waits for a task that has not started run it
	// himself. So up to as many bodies as there are such callers run besides
	// those of the workers. Delayed tasks and those of lanes are left to workers.
	Help bool

	// Handlers are the tasks that Submit serves, by name. They may be nil in
	// a pool that is not used as a bullpen.Executor.
	Handlers map[string]bullpen.Handler
	// Output is the largest result of a handler in bytes; 0 means no bound.
	Output int

	// Logger gets the pool's events; nil means none. It may be slow: events it
	// is too slow for are counted and dropped.
	Logger *slog.Logger
}

// check reports all faults of c at once.
func (c *Config) check() error {
	var errs []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Min >= 0, "Min is %d: use 0 or more workers", c.Min)
	fault(c.Max >= 0, "Max is %d: use a positive number of workers, or 0 for twice GOMAXPROCS", c.Max)
	fault(c.Max <= mostWorkers, "Max is %d: a pool can have %d workers", c.Max, mostWorkers)
	if c.Max > 0 {
		fault(c.Min <= c.Max, "Min is %d and Max %d: Min may not be larger", c.Min, c.Max)
	} else {
		fault(c.Min <= mostWorkers, "Min is %d: a pool can have %d workers", c.Min, mostWorkers)
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

// complete puts in the defaults.
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
