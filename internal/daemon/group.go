package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// actor is a part of the daemon that runs as long as the daemon does. run returns
// when its context ends, or with an error if it fails.
type actor struct {
	name string
	run  func(context.Context) error
}

// ended is the result of an actor.
type ended struct {
	index int
	err   error
}

// runActors runs all actors until the first of them ends, or ctx does. Then it ends
// them one by one in the order of the list, waiting for each. The error names the
// actor that ended the others, and includes their errors; nil means that ctx ended
// and all actors ended well.
func runActors(ctx context.Context, log *slog.Logger, actors []actor) error {
	ends := make(chan ended, len(actors))
	stops := make([]context.CancelFunc, len(actors))
	for i, a := range actors {
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop() // stop was called before
		stops[i] = stop
		go func() { // ends when the actor fails or is stopped; awaited below
			ends <- ended{i, a.run(own)}
		}()
	}
	var errs []error
	gone := make([]bool, len(actors))
	select {
	case <-ctx.Done():
		log.Info("the daemon stops", "cause", context.Cause(ctx))
	case e := <-ends:
		gone[e.index] = true
		err := e.err
		if err == nil {
			err = errors.New("it ended by itself")
		}
		err = fmt.Errorf("%s: %w", actors[e.index].name, err)
		log.Error("stopping: a part of the daemon has ended", "part", actors[e.index].name, "error", err)
		errs = append(errs, err)
	}
	for i, a := range actors {
		stops[i]()
		for !gone[i] {
			e := <-ends
			gone[e.index] = true
			if e.err != nil {
				log.Error("a part of the daemon did not stop cleanly", "part", actors[e.index].name, "error", e.err)
				errs = append(errs, fmt.Errorf("%s: %w", actors[e.index].name, e.err))
			}
		}
		log.Debug("a part of the daemon has ended", "part", a.name)
	}
	return errors.Join(errs...)
}
