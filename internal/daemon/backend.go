package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// backend is the daemon as the API sees it.
type backend struct{ *Daemon }

var _ api.Backend = backend{}

// Queue is as in [api.Backend].
func (d backend) Queue() *queue.Queue { return d.queue }

// Stopping is as in [api.Backend]: it is closed once no pool runs anything, so that
// callers that wait for running tasks still get their outcomes. New work is refused
// earlier.
func (d backend) Stopping() <-chan struct{} { return d.pooled }

// Pools is as in [api.Backend].
func (d backend) Pools() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.pools))
}

// find returns a pool.
func (d *Daemon) find(name string) (*pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pools[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %q", api.ErrNoPool, name)
}

// Complete is as in [api.Backend].
func (d backend) Complete(name string, j job.Job) (job.Job, error) {
	if d.state.State() != Serving {
		return j, fmt.Errorf("the daemon is %v: %w", d.state.State(), bullpen.ErrClosed)
	}
	p, err := d.find(name)
	if err != nil {
		return j, err
	}
	j.Queue = name
	s := p.config()
	complete(&j, &s)
	return j, nil
}

// refuse returns why the workers of a pool could not run a task; nil if they can, or
// if the pool has none here. It is called before a job is stored.
func (d *Daemon) refuse(name string, t bullpen.Task) error {
	p, err := d.find(name)
	if err != nil {
		return nil //nolint:nilerr // it is worked off elsewhere, or a reload has taken it away
	}
	if g := p.generation(); g != nil {
		return g.workers.Check(t)
	}
	return nil
}

// complete fills in what a job leaves to its pool.
func complete(j *job.Job, s *settings.Pool) {
	fill(&j.Name, s.Task)
	if s.GroupMeta != "" {
		fill(&j.Group, j.Meta[s.GroupMeta])
	}
	j.Retry = over(j.Retry, s.Retry)
	fill(&j.Bury, s.Bury)
}

// over fills the unset fields of r from by.
func over(r, by job.Retry) job.Retry {
	fill(&r.Attempts, by.Attempts)
	fill(&r.Backoff, by.Backoff)
	fill(&r.MaxBackoff, by.MaxBackoff)
	fill(&r.Crashes, by.Crashes)
	fill(&r.Nodes, by.Nodes)
	if len(r.On) == 0 {
		r.On = by.On
	}
	return r
}

func fill[T comparable](to *T, by T) {
	var zero T
	if *to == zero {
		*to = by
	}
}

// Waits is as in [api.Backend].
func (d backend) Waits(parent string) (done func(), err error) {
	name, here := d.hub.Where(parent)
	if !here {
		return func() {}, nil
	}
	p, err := d.find(name)
	if err != nil {
		return func() {}, nil //nolint:nilerr // a reload has taken the pool away, and its workers take nothing more
	}
	return p.wait(parent)
}

// Follow is as in [api.Backend].
func (d backend) Follow(id string, after live.Position) *live.Feed { return d.hub.Follow(id, after) }

// Scale is as in [api.Backend].
func (d backend) Scale(name string, minimum, maximum int) error {
	p, err := d.find(name)
	if err != nil {
		return err
	}
	return p.scale(minimum, maximum)
}

// ReloadPool is as in [api.Backend].
func (d backend) ReloadPool(ctx context.Context, name string) error {
	p, err := d.find(name)
	if err != nil {
		return err
	}
	g := p.generation()
	if g == nil {
		return fmt.Errorf("%w: the configuration of this daemon has no command for %q", api.ErrQueueOnly, name)
	}
	return shownError(g.workers.Reload(ctx))
}

// Status is as in [api.Backend].
func (d backend) Status() api.Status {
	s, fault := d.config(), ""
	if f := d.reloads.fault.Load(); f != nil {
		fault = *f
	}
	return api.Status{
		Version: d.version, Node: s.Node, Started: d.started, Ready: d.readiness().ok(), Live: d.liveness().ok(),
		Stopping: d.state.State() > Serving, LogLinesDropped: d.logLost(),
		ReloadFailed: fault,
	}
}

// Pool is as in [api.Backend].
func (d backend) Pool(_ context.Context, name string) (api.Pool, error) {
	p, err := d.find(name)
	if err != nil {
		return api.Pool{}, err
	}
	a := p.describe()
	// A job waits in the durable queue, because the workers' pool takes only what it
	// can start. The pool's own figures are used only if no job has started.
	if jobs := d.queue.QueueStats(name).Wait; jobs.Count > 0 {
		a.QueueTime = jobs
	}
	return a, nil
}

// describe describes p.
func (p *pool) describe() api.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := api.Pool{Name: p.name, Stats: level.Stats{State: "queue-only"}, Task: p.settings.Task, Ephemeral: p.settings.Ephemeral}
	g := p.now
	if g == nil {
		return a
	}
	a.Config, a.Stats, a.Error = g.workers.Config(), g.workers.Stats(), g.startError()
	a.Min, a.Max, a.Helpers = p.min, p.max, p.helpers()
	return a
}
