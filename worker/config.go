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

// Config says what a worker can do.
type Config struct {
	// Handlers are the tasks by name. The name "*" takes every task that has no
	// handler of its own; it finds the name in Task.Name.
	Handlers map[string]bullpen.Handler
	// Concurrency is how many handlers run at the same time, 1 to 960; 0 means 1.
	Concurrency int
	// Order gives the handlers their numbers on the wire; nil means by name.
	// Only tests of the protocol need it.
	Order []string
	// Level is the least level that Logger sends; nil means slog.LevelInfo.
	Level slog.Leveler
}

// Exit statuses of a worker, as protocol/SPEC.md has them.
const (
	statusDone     = 0
	statusWrite    = 1 // the host does not read any more
	statusStart    = 2 // started by hand, or with a wrong configuration
	statusProtocol = 3 // the host broke the protocol
)

// ErrByHand says that a worker was started by a person or a program that is no
// host of Bullpen.
var ErrByHand = errors.New("this program is a worker of Bullpen and was started without a host; start it with\n" +
	"    bullpen map --protocol frames --task NAME -- PROGRAM")

// serving is true from the moment Run has taken the channel from the
// environment.
var serving atomic.Bool

// Serving reports whether this process was started by a host to be a worker. A
// program that is both calls Main only then. It may be called at any time.
func Serving() bool {
	return serving.Load() || os.Getenv(variable) != ""
}

// Main serves tasks until the host ends the session, and exits the process: it
// does not return. Faults are written to standard error. Exit statuses: 0 after a
// session, 1 when the host stopped reading, 2 when the program was started by
// hand or c is wrong, 3 when the host broke the protocol.
func Main(c Config) {
	status, err := Run(c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	}
	os.Exit(status)
}

// Run is Main for programs that have something to do after the session: it
// returns the exit status, and an error where there is a fault to tell. It takes
// the channel named in the environment, so that it can serve once per process.
// With status 1 or 3 handlers may still be running when it returns: exit then.
func Run(c Config) (status int, err error) {
	names, err := c.check()
	if err != nil {
		return statusStart, err
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

// statusOf gives the exit status that belongs to the end of a session.
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

// check reports every fault of c, and gives the names of the handlers in the
// order of their numbers.
func (c Config) check() ([]string, error) {
	var errs []error
	names := slices.Sorted(maps.Keys(c.Handlers))
	if len(names) == 0 {
		errs = append(errs, errors.New("no Handlers: give at least one"))
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
		// Joined faults stand on lines of their own, and none of them is one of
		// the session.
		return nil, fmt.Errorf("worker: wrong configuration: %s", err.Error())
	}
	return names, nil
}
