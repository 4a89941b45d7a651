package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/bullpen-run/bullpen/internal/level"
)

// ending is a way to end the workers of a pool: level.Pool.Stop, level.Pool.Drain or
// closing.
type ending func(level.Pool, context.Context) error

func closing(p level.Pool, _ context.Context) error { return p.Close() }

// runPools lets all pools take jobs until ctx ends, then ends them all at the same
// time: they take no more jobs, return those that have not started, and let running
// ones finish within the grace.
func (d *Daemon) runPools(ctx context.Context) error {
	d.mu.Lock()
	d.taking = true
	for _, p := range d.pools {
		d.take(p.generation()) //nolint:contextcheck // endPools ends it
	}
	d.mu.Unlock()
	d.judge()
	var err error
	select {
	case err = <-d.failed:
	case <-ctx.Done():
	}
	d.Stop()                              // also ends reloads and refuses new work
	return errors.Join(err, d.endPools()) //nolint:contextcheck // ctx has ended, and the grace begins
}

// take begins to take jobs for g, which may be nil.
func (d *Daemon) take(g *generation) {
	if g == nil {
		return
	}
	g.take(d.queue, func(err error) {
		select {
		case d.failed <- err:
		default: // an earlier error already ends the daemon
		}
	})
}

// endPools ends all pools, within the grace or at once after Close.
func (d *Daemon) endPools() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.config().Grace)
	defer cancel()
	stop := until(d.aborted, cancel)
	defer stop()
	// A reload in progress gives up soon, unless the disk with the workers' program
	// does not answer; later reloads are refused.
	select {
	case d.reloading <- struct{}{}:
		defer func() { <-d.reloading }()
	case <-ctx.Done():
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error // guarded by mu
	for _, p := range d.list() {
		all.Go(func() { // ends with the pool, soon after the grace
			if err := p.end(ctx, level.Pool.Stop); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	d.retiring.Wait()
	close(d.pooled)
	return errors.Join(errs...)
}

// until calls f when c is closed, unless stop was called before.
func until(c <-chan struct{}, f func()) (stop func()) {
	over := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { // ends by stop, which waits for it
		select {
		case <-c:
			f()
		case <-over:
		}
	})
	return sync.OnceFunc(func() { close(over); waiting.Wait() })
}

// list returns the pools.
func (d *Daemon) list() []*pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*pool, 0, len(d.pools))
	for _, p := range d.pools {
		all = append(all, p)
	}
	return all
}
