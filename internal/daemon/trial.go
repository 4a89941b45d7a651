package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/process"
)

// Trial is the result of starting one worker of a pool.
type Trial struct {
	Pool string
	// Started is false if no worker was to be started: the pool has no command, or
	// starts a process for each task.
	Started bool
	// Took is how long the worker took to become ready.
	Took time.Duration
	// Err is why the worker does not start, or why its limits and sandbox cannot be
	// set up.
	Err error
}

// trialsAtOnce is how many pools are tried concurrently.
const trialsAtOnce = 4

// Try starts one worker of each pool and ends it again, without opening the queue or
// addresses. The results are sorted by name.
func Try(ctx context.Context, s *settings.Settings) []Trial {
	names := slices.Sorted(maps.Keys(s.Pools))
	trials := make([]Trial, len(names))
	room := make(chan struct{}, trialsAtOnce)
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { // ends with its trial, soon after the pool's StartTimeout
			room <- struct{}{}
			defer func() { <-room }()
			trials[i] = try(ctx, name, s.Pools[name].Process)
		})
	}
	all.Wait()
	return trials
}

// try starts a worker of one pool.
func try(ctx context.Context, name string, c process.Config) Trial {
	t := Trial{Pool: name}
	if len(c.Command) == 0 {
		return t
	}
	c.Name, c.Logger = name, slog.New(slog.DiscardHandler)
	c.Min, c.Max, c.Spare = 0, 1, 0
	workers, err := level.New(c) //nolint:contextcheck // a pool bounds its own starts
	if err != nil {
		t.Err = err
		return t
	}
	if c.Protocol != process.Exec {
		t.Started = true
		begun := time.Now()
		t.Err = firstStart(ctx, workers)
		t.Took = time.Since(begun)
	}
	if err := workers.Close(); t.Err == nil {
		t.Err = err
	}
	return t
}

// firstStart waits until a worker is ready, or has failed to start.
func firstStart(ctx context.Context, workers level.Pool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workers.Config().StartTimeout+time.Second, errors.New("the worker was not ready in time"))
	defer cancel()
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	events := workers.Events(0)
	go func() { // ends with the workers
		for e := range events {
			if e.Kind == level.StartFailed {
				failed(e.Err) // otherwise the pool would start another
			}
		}
	}()
	return workers.Ready(ctx, 1)
}
