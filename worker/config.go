package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Config configures a worker.
type Config struct {
	// Handlers are the handlers by task name. The handler "*" receives all tasks without a
	// handler of their own; Task.Name is the task's name.
	Handlers map[string]bullpen.Handler
	// Concurrency is how many handlers may run at the same time, 1 to 960; 0 means 1.
	Concurrency int
	// Order numbers the handlers on the wire; nil means by name. Only tests of the protocol
	// need it.
	Order []string
	// Level is the minimum level that Logger sends; nil means slog.LevelInfo.
	Level slog.Leveler
}

// Exit statuses of a worker, as defined in protocol/SPEC.md.
const (
	statusDone     = 0
	statusWrite    = 1 // the host no longer reads
	statusStart    = 2 // started by hand, or with a wrong configuration
	statusProtocol = 3 // the host broke the protocol
)

// ErrByHand means that a worker was not started by a Bullpen host.
var ErrByHand = errors.New("this program is a worker of Bullpen and was started without a host; start it with\n" +
	"    bullpen map --protocol frames --task NAME -- PROGRAM")

// serving is set when Run has taken the channel from the environment.
var serving atomic.Bool

// Serving reports whether a host started this process as a worker. A program that is both a
// host and a worker calls Main only if Serving is true. It may be called at any time.
func Serving() bool {
	return serving.Load() || os.Getenv(variable) != ""
}

// Main serves tasks until the host ends the session, and then exits the process. It writes
// errors to standard error. The exit status is 0 after a session, 1 if the host stopped
// reading, 2 if the program was started by hand or c is invalid, and 3 if the host violated
// the protocol.
func Main(c Config) {
	status, err := Run(c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	}
	os.Exit(status)
}

// Run is Main for programs that need to do something after the session: it returns the exit
// status and an error, if any. It takes the channel from the environment, so it can serve
// only once per process. With status 1 or 3, handlers may still be running: the program
// should exit.
func Run(c Config) (status int, err error) {
	names, err := c.check()
	if err != nil {
		return statusStart, err
	}
	if served, err := runGuest(c); served {
		return statusOf(err), err
	}
	ch, err := open()
	if err != nil {
		return statusStart, err
	}
	serving.Store(true)
	defer ch.close()
	s, err := newSession(c, names, ch.in, ch.out, ch.memory)
	if err == nil {
		err = s.serve()
	}
	return statusOf(err), err
}

// statusOf returns the exit status for the end of a session.
func statusOf(err error) int {
	var invalid *protocol.InvalidError
	var write *writeError
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &invalid):
		return statusProtocol
	case errors.As(err, &write):
		return statusWrite
	default:
		return statusStart
	}
}

// check returns the names of the handlers in the order of their numbers, and an error that
// lists all faults of c.
func (c Config) check() ([]string, error) {
	var errs []error
	names := slices.Sorted(maps.Keys(c.Handlers))
	if len(names) == 0 {
		errs = append(errs, errors.New("Handlers is empty: add at least one"))
	} else if err := protocol.CheckTasks(names); err != nil {
		errs = append(errs, fmt.Errorf("a name in Handlers cannot be used: %w", err))
	}
	for _, name := range names {
		if c.Handlers[name] == nil {
			errs = append(errs, fmt.Errorf("the handler %q is nil", name))
		}
	}
	if c.Concurrency < 0 || c.Concurrency > protocol.MaxConcurrency {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use 1 to %d, or 0 for 1", c.Concurrency, protocol.MaxConcurrency))
	}
	if c.Order != nil {
		if !slices.Equal(slices.Sorted(slices.Values(c.Order)), names) {
			errs = append(errs, fmt.Errorf("Order is %q: it must have each of the handlers %q once", c.Order, names))
		}
		names = slices.Clone(c.Order)
	}
	if err := errors.Join(errs...); err != nil {
		// The text only: a joined error must not match one of the session's errors.
		return nil, fmt.Errorf("worker: wrong configuration: %s", err.Error())
	}
	return names, nil
}
