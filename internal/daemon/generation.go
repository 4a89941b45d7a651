package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/trace"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
)

// generation is the workers of a pool under one configuration, and what takes
// jobs for them. A reload that changes how workers are started makes a new one.
type generation struct {
	name     string
	workers  *process.Pool
	executor bullpen.Executor // the workers, with their tasks known to the hub as jobs
	direct   bullpen.Executor // the same, with tasks that are no jobs
	feed     *process.Feed
	starts   *trace.Starts // of the workers, for traces; nil for none
	changed  func()        // called after workers have come or failed to
	watching chan struct{}
	counts   counts

	restart chan struct{} // capacity 1: a new call of Work is to take the place of this one
	room    chan struct{} // capacity 1: there may be room that Work does not know of

	mu       sync.Mutex
	settings settings.Pool      // guarded by mu
	startErr string             // why workers do not start; guarded by mu
	gate     *gate              // of the newest call of Work; guarded by mu
	stop     context.CancelFunc // ends the taking; guarded by mu
	taken    chan struct{}      // closed when no call of Work is left; guarded by mu
}

// newGeneration starts the workers of a pool. They take no jobs yet.
func newGeneration(name string, s settings.Pool, d *Daemon) (*generation, error) {
	c := s.Process
	c.Name, c.Budget, c.Logger, c.Overflow = name, d.budget, d.log, process.Reject
	workers, err := process.New(c)
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", name, err)
	}
	starts := d.tracer.Starts()
	g := &generation{
		name: name, settings: s, workers: workers, feed: workers.Events(64), changed: d.judge, starts: starts,
		executor: d.tracer.Wrap(name, d.hub.Wrap(name, workers), starts), direct: d.tracer.WrapEphemeral(name, d.hub.WrapEphemeral(name, workers), starts),
		watching: make(chan struct{}), restart: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	go g.watch() // ends with the workers; end waits for it
	return g, nil
}

// watch notes why workers do not start.
func (g *generation) watch() {
	defer close(g.watching)
	for e := range g.feed.C {
		g.starts.Note(&e)
		switch e.Kind {
		case process.StartFailed:
			g.setStartError(toldText(e.Text, g.workers.Config().Command))
		case process.Ready, process.Mended:
			g.setStartError("")
		case process.Stopped, process.Died:
			g.roomCame() // for another one
			continue
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

// startError says why workers do not start, empty where they do.
func (g *generation) startError() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.startErr
}

// forever is the grace of Work: what runs is ended by the pool, which has the
// daemon's grace, so that calls of Work can end and begin while jobs run on.
const forever = time.Duration(math.MaxInt64 / 2)

// take begins to take jobs from q for the workers. An error that ends the taking
// is given to failed.
func (g *generation) take(q *queue.Queue, failed func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.taken = stop, make(chan struct{})
	go g.work(ctx, q, failed, g.taken) // ends with ctx and what was taken; end waits for it
}

// work keeps one call of Work taking until ctx ends. A new one takes its place
// where room has come that the old one does not see; the old one keeps what it
// has in hand until that has ended.
func (g *generation) work(ctx context.Context, q *queue.Queue, failed func(error), taken chan<- struct{}) {
	defer close(taken)
	var calls sync.WaitGroup
	defer calls.Wait()
	for ctx.Err() == nil {
		turn, over := context.WithCancel(ctx)
		gate := g.nextGate() // before the next turn can make its own
		calls.Go(func() {    // ends with turn, and what it has in hand
			defer over()
			err := q.Work(turn, gate, queue.WorkConfig{Queue: g.name, Strict: g.strict(), Group: g.groups(), Grace: forever, Bury: g.buries()})
			if err != nil && turn.Err() == nil {
				failed(fmt.Errorf("pool %q takes no more jobs: %w", g.name, err))
			}
		})
		g.await(ctx, turn)
		over()
	}
}

const (
	// roomPause is how long Work has to see by itself that others have made room.
	roomPause = 10 * time.Millisecond
	// roomPatience is how often is looked for room where none was found.
	roomPatience = time.Second
)

// await returns when a new call of Work is needed, or ctx has ended.
func (g *generation) await(ctx, turn context.Context) {
	var look <-chan time.Time // nil while there is nothing to look for
	soon := false             // look comes after roomPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-turn.Done():
			<-ctx.Done() // it has failed, which ends the daemon
			return
		case <-g.restart:
			return
		case <-g.room:
			if !soon {
				look, soon = time.After(roomPause), true
			}
		case <-look:
			look, soon = nil, false
			if !g.newest().wasFull(roomPause) {
				continue
			}
			if g.workers.Capacity() > 0 {
				return
			}
			look = time.After(roomPatience)
		}
	}
}

// roomCame says that a worker has become free, or may be started, by other means
// than the end of a job.
func (g *generation) roomCame() {
	if now := g.newest(); now == nil || !now.wasFull(0) {
		return
	}
	select {
	case g.room <- struct{}{}:
	default: // it is known
	}
}

// newest is the gate of the newest call of Work, nil for none.
func (g *generation) newest() *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gate
}

// nextGate makes the gate of the next call of Work.
func (g *generation) nextGate() *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate != nil {
		g.gate.stale.Store(true)
	}
	g.gate = newGate(g.executor, g.settings.Jobs, &g.counts, g.roomCame)
	return g.gate
}

func (g *generation) buries() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.settings.Bury
}

// groups are the limits of groups that have none of their own.
func (g *generation) groups() queue.GroupLimits {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.settings.Groups
}

func (g *generation) strict() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.settings.Strict
}

// retune gives g settings that need no other workers.
func (g *generation) retune(s settings.Pool) {
	g.mu.Lock()
	same := g.settings.Strict == s.Strict && g.settings.Jobs == s.Jobs && g.settings.Groups == s.Groups && g.settings.Bury == s.Bury
	g.settings = s
	g.mu.Unlock()
	if !same {
		g.takeAnew()
	}
}

// takeAnew makes a new call of Work take the place of the present one.
func (g *generation) takeAnew() {
	select {
	case g.restart <- struct{}{}:
	default: // it will
	}
}

// resized makes the taking see at once that the pool may have become larger, and
// that so many of its tasks wait for others.
func (g *generation) resized(waiting int) {
	g.counts.extra.Store(int64(waiting))
	if now := g.newest(); now != nil && now.wasFull(0) {
		g.takeAnew()
	}
}

// takes tells how many jobs were handed over until now.
func (g *generation) takes() uint64 {
	return g.counts.taken.Load()
}

// end stops the taking and ends the workers by how, which is Stop, Drain or
// Close of the pool. It returns when nothing is left. What never started goes
// back to the queue at once.
func (g *generation) end(ctx context.Context, how func(context.Context) error) error {
	g.mu.Lock()
	stop, taken := g.stop, g.taken
	g.mu.Unlock()
	if stop != nil {
		stop()
	}
	err := how(ctx)
	if taken != nil {
		<-taken
	}
	<-g.watching
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // the grace was over, and all was ended
	}
	return err
}
