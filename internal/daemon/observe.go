package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/job"
)

// keepHistory adds a point to the history at each step, until ctx ends.
func (d *Daemon) keepHistory(ctx context.Context) error {
	tick := time.NewTicker(d.history.Step())
	defer tick.Stop()
	d.remember(ctx)
	for {
		select {
		case <-tick.C:
			d.remember(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// remember adds a point to the history.
func (d *Daemon) remember(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	at := time.Now()
	_, readings, _ := d.observe(ctx, at) // values that the store does not return stay unknown
	d.history.Add(at, readings)
}

// observe returns the state of all pools. The error joins those of queues that the
// store did not answer for; the other results are valid all the same.
func (d *Daemon) observe(ctx context.Context, at time.Time) (now []api.PoolNow, readings map[string]history.Reading, err error) {
	pools := d.list()
	slices.SortFunc(pools, func(a, b *pool) int { return strings.Compare(a.name, b.name) })
	now, readings = make([]api.PoolNow, len(pools)), make(map[string]history.Reading, len(pools))
	for i, p := range pools {
		now[i] = api.PoolNow{Name: p.name, State: "queue-only"}
		r := history.Reading{Wait: d.queue.QueueStats(p.name).Wait}
		p.count(&now[i], &r)
		counts, fault := d.queue.Counts(ctx, p.name)
		if err = errors.Join(err, fault); fault == nil {
			measure(counts, &now[i], &r, at)
		}
		readings[p.name] = r
	}
	return now, readings, err
}

// measure sets the counts of a pool's queue.
func measure(c job.Counts, n *api.PoolNow, r *history.Reading, at time.Time) {
	r.Known, r.Waiting = true, int(c.Waiting)
	n.Taken, n.Dead, n.Paused, n.Oldest = int(c.Taken), int(c.Dead), c.Paused, c.Oldest
	if !n.Oldest.IsZero() {
		r.Oldest = at.Sub(n.Oldest)
	}
}

// count sets the counts of p's workers.
func (p *pool) count(n *api.PoolNow, r *history.Reading) {
	p.mu.Lock()
	g := p.now
	n.Max = p.max + p.helpers()
	p.mu.Unlock()
	if g == nil {
		n.Max = 0
		return
	}
	s := g.workers.Stats()
	n.State, n.Error, n.Workers = s.State, g.startError(), s.Starting+s.Idle+s.Busy+s.Leaving
	r.Running = s.InHand
	r.Stuck = n.Error != "" && s.InHand == 0
	for o, count := range s.Outcomes {
		r.Ended += count
		if o != bullpen.OK {
			r.Failed += count
		}
	}
	r.Run = s.RunTime
}

// Overview is as in [api.Backend].
func (d backend) Overview(ctx context.Context) (api.Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	at := time.Now()
	now, readings, err := d.observe(ctx, at)
	if err != nil {
		return api.Overview{}, err
	}
	scheduled, err := d.queue.Scheduled(ctx)
	if err != nil {
		return api.Overview{}, err
	}
	points := d.history.Now(at, readings)
	o := api.Overview{Scheduled: int(scheduled)}
	o.Pools, o.Total.Point = now, points[history.All]
	for i := range now {
		n := &now[i]
		n.Point = points[n.Name]
		o.Total.Taken += n.Taken
		o.Total.Dead += n.Dead
		o.Total.Workers += n.Workers
		o.Total.Max += n.Max
		if !n.Oldest.IsZero() && !readings[n.Name].Stuck && (o.Total.Oldest.IsZero() || n.Oldest.Before(o.Total.Oldest)) {
			o.Total.Oldest = n.Oldest
		}
	}
	return o, nil
}

// History is as in [api.Backend].
func (d backend) History(pool string, span time.Duration) (history.Series, error) {
	if pool != history.All {
		if _, err := d.find(pool); err != nil {
			return history.Series{}, err
		}
	}
	return d.history.Series(pool, span, time.Now()), nil
}

// Workers is as in [api.Backend].
func (d backend) Workers(name string) ([]level.Worker, error) {
	p, err := d.find(name)
	if err != nil {
		return nil, err
	}
	g := p.generation()
	if g == nil {
		return nil, nil
	}
	return g.workers.Workers(), nil
}

// Recycle is as in [api.Backend].
func (d backend) Recycle(name, worker string) error {
	p, err := d.find(name)
	if err != nil {
		return err
	}
	g := p.generation()
	if g == nil {
		return fmt.Errorf("%w: the configuration of this daemon has no command for %q", api.ErrQueueOnly, name)
	}
	err = g.workers.Recycle(worker)
	if errors.Is(err, level.ErrNoWorker) {
		return fmt.Errorf("%w: pool %q has no worker %q", api.ErrNoWorker, name, worker)
	}
	return err
}
