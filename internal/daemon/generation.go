package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/trace"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
)

// generation is the workers of a pool under one configuration, and the goroutines
// that take jobs for them. A reload that changes how workers are started creates a
// new one.
type generation struct {
	name     string
	workers  level.Pool
	limiter  *limiter         // the workers; the hub tracks their tasks as jobs
	direct   bullpen.Executor // the same workers, for tasks that are not jobs
	starts   *trace.Starts    // starts of the workers, for traces; nil for none
	changed  func()           // called after workers started or failed to start
	watching chan struct{}

	restart chan struct{} // capacity 1: requests a new call of Work in place of the present one

	mu       sync.Mutex
	settings settings.Pool      // guarded by mu
	startErr string             // why workers do not start; guarded by mu
	stop     context.CancelFunc // stops taking jobs; guarded by mu
	taken    chan struct{}      // closed when no call of Work is left; guarded by mu
}

// newGeneration starts the workers of a pool. They take no jobs yet.
func newGeneration(name string, s settings.Pool, d *Daemon) (*generation, error) {
	c := s.Process
	c.Name, c.Budget, c.Logger, c.Overflow = name, d.budget, d.log, process.Reject
	workers, err := d.newWorkers(c)
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", name, err)
	}
	starts := d.tracer.Starts()
	g := &generation{
		name: name, settings: s, workers: workers, changed: d.judge, starts: starts,
		limiter:  newLimiter(d.tracer.Wrap(name, d.hub.Wrap(name, workers), starts), s.Jobs),
		direct:   d.tracer.WrapEphemeral(name, d.hub.WrapEphemeral(name, workers), starts),
		watching: make(chan struct{}), restart: make(chan struct{}, 1),
	}
	go g.watch(workers.Events(64)) // ends with the workers; end waits for it
	return g, nil
}

// watch records why workers do not start.
func (g *generation) watch(events iter.Seq[level.Event]) {
	defer close(g.watching)
	for e := range events {
		g.starts.Note(&e)
		switch e.Kind {
		case level.StartFailed:
			g.setStartError(shownError(e.Err).Error())
		case level.Ready, level.Mended:
			g.setStartError("")
		default:
			continue
		}
		g.changed()
	}
}

func (g *generation) setStartError(text string) {
	g.mu.Lock()
	g.startErr = text
	g.mu.Unlock()
}

// startError returns why workers do not start; empty if they start.
func (g *generation) startError() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.startErr
}

// forever is the grace of Work. The pool itself ends running jobs after the daemon's
// grace, so that calls of Work can end and begin while jobs continue.
const forever = time.Duration(math.MaxInt64 / 2)

// take begins to take jobs from q for the workers. It passes an error that ends this
// to failed.
func (g *generation) take(q *queue.Queue, failed func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.taken = stop, make(chan struct{})
	go g.work(ctx, q, failed, g.taken) // ends with ctx and the jobs in hand; end waits for it
}

// work keeps one call of Work taking jobs until ctx ends. When the settings change,
// it starts a new call; the old one finishes its jobs in hand.
func (g *generation) work(ctx context.Context, q *queue.Queue, failed func(error), taken chan<- struct{}) {
	defer close(taken)
	var calls sync.WaitGroup
	defer calls.Wait()
	for ctx.Err() == nil {
		turn, over := context.WithCancel(ctx)
		calls.Go(func() { // ends with turn, after its jobs in hand
			defer over()
			err := q.Work(turn, g.limiter, g.workConfig())
			if err != nil && turn.Err() == nil {
				failed(fmt.Errorf("pool %q accepts no more jobs: %w", g.name, err))
			}
		})
		select {
		case <-turn.Done():
			<-ctx.Done() // Work may also have failed, which ends the daemon
		case <-g.restart:
		}
		over()
	}
}

// workConfig returns the configuration for Work.
func (g *generation) workConfig() queue.WorkConfig {
	g.mu.Lock()
	defer g.mu.Unlock()
	return queue.WorkConfig{Queue: g.name, Strict: g.settings.Strict, Group: g.settings.Groups, Grace: forever, Bury: g.settings.Bury}
}

// retune applies settings that need no new workers.
func (g *generation) retune(s settings.Pool) {
	g.mu.Lock()
	same := g.settings.Strict == s.Strict && g.settings.Groups == s.Groups && g.settings.Bury == s.Bury
	g.settings = s
	g.mu.Unlock()
	g.limiter.bound(s.Jobs)
	if same {
		return
	}
	select {
	case g.restart <- struct{}{}:
	default: // already requested
	}
}

// end stops taking jobs and ends the workers with how. It returns when nothing is left. Jobs that never started go back to
// the queue at once.
func (g *generation) end(ctx context.Context, how ending) error {
	g.mu.Lock()
	stop, taken := g.stop, g.taken
	g.mu.Unlock()
	if stop != nil {
		stop()
	}
	err := how(g.workers, ctx)
	if taken != nil {
		<-taken
	}
	<-g.watching
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // the grace was over, and all tasks were aborted
	}
	return err
}
