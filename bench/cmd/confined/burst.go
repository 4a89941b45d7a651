package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// burst is how many tasks come at the same moment, and spares how many workers
// are warm then.
const (
	burst  = 8
	spares = 8
)

func burstPart() part {
	p := part{
		id: "burst", title: "(b) Eight tasks at once on eight spare workers, Go",
		note: lines("From the moment at which all eight are let go until the answer of each, for tasks that do nothing, with `Min: 0, Max: 16, Spare: 8`.",
			"*Over the round trip* is what is above the median of one task at a time on a warm worker of a pool of the same kind, measured between the bursts.",
			"The pool starts replacements for the spares while the burst is served."),
		columns: []column{{"p50_us", "p50 µs", 0}, {"p99_us", "p99 µs", 0}, {"trip_p50_us", "round trip p50 µs", 0},
			{"over_p50_us", "over it p50 µs", 0}, {"over_p99_us", "over it p99 µs", 0}},
	}
	for _, way := range []struct {
		id, title string
		kind      kind
		do        func(*bursts, context.Context) error
	}{
		{"burst/new", "first tasks of workers, a new pool for each burst", ours, (*bursts).anew},
		{"burst/recycled", "first tasks of workers, each worker replaced after one task", ours, (*bursts).recycled},
		{"burst/warm", "eight warm workers, no spares: what eight tasks at once take in any case", floor, (*bursts).warm},
	} {
		p.rows = append(p.rows, row{way.id, way.title, way.kind})
		p.cells = append(p.cells, single(way.id, func(ctx context.Context, o options, at places) (metrics, error) {
			return measureBursts(ctx, o, at, way.do)
		}))
	}
	return p
}

// bursts measures one way of having eight workers ready.
type bursts struct {
	config process.Config
	count  int
	took   []time.Duration
	trips  []time.Duration
	trip   *process.Pool // of one warm worker
}

func measureBursts(ctx context.Context, o options, at places, do func(*bursts, context.Context) error) (m metrics, err error) {
	b := &bursts{count: pick(o, 200, 20), config: process.Config{Command: []string{at.rough()}, Max: 16, Spare: spares}}
	b.trip, err = process.New(process.Config{Command: []string{at.rough()}, Min: 1, Max: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.trip.Close()) }()
	for range 100 { // until it is warm
		if _, err := b.trip.Execute(ctx, bullpen.Task{Name: "null"}); err != nil {
			return nil, err
		}
	}
	if err := do(b, ctx); err != nil {
		return nil, err
	}
	m = metrics{}
	m.put("", b.took)
	m.put("trip_", b.trips)
	m["over_p50_us"] = m["p50_us"] - m["trip_p50_us"]
	m["over_p99_us"] = m["p99_us"] - m["trip_p50_us"]
	return m, nil
}

// anew gives every burst a pool of its own.
func (b *bursts) anew(ctx context.Context) error {
	for range b.count {
		if err := b.inPool(b.config, func(p *process.Pool, feed *process.Feed) error {
			return b.once(ctx, p, feed)
		}); err != nil {
			return err
		}
	}
	return nil
}

// recycled has one pool for all bursts, whose workers leave after one task.
func (b *bursts) recycled(ctx context.Context) error {
	c := b.config
	c.Recycle.Tasks = 1
	return b.all(ctx, c)
}

// warm has eight workers for all bursts.
func (b *bursts) warm(ctx context.Context) error {
	c := b.config
	c.Min, c.Max, c.Spare = spares, spares, 0
	return b.all(ctx, c)
}

func (b *bursts) all(ctx context.Context, c process.Config) error {
	return b.inPool(c, func(p *process.Pool, feed *process.Feed) error {
		for range b.count {
			if err := b.once(ctx, p, feed); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bursts) inPool(c process.Config, do func(*process.Pool, *process.Feed) error) (err error) {
	p, err := process.New(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	feed := p.Events(0)
	defer feed.Close()
	return do(p, feed)
}

// once waits for the spares, lets the tasks go and notes how long each took; then
// it measures some round trips.
func (b *bursts) once(ctx context.Context, p *process.Pool, feed *process.Feed) error {
	if err := idle(ctx, p, feed, spares); err != nil {
		return err
	}
	gate := make(chan struct{})
	var begin time.Time
	var ready, all sync.WaitGroup
	var took [burst]time.Duration
	var errs [burst]error
	for i := range burst {
		ready.Add(1)
		all.Go(func() { // ends with its task
			ready.Done()
			<-gate
			_, errs[i] = p.Execute(ctx, bullpen.Task{Name: "null"})
			took[i] = time.Since(begin)
		})
	}
	ready.Wait()
	begin = time.Now()
	close(gate)
	all.Wait()
	b.took = append(b.took, took[:]...)
	for range 5 {
		begin := time.Now()
		if _, err := b.trip.Execute(ctx, bullpen.Task{Name: "null"}); err != nil {
			return err
		}
		b.trips = append(b.trips, time.Since(begin))
	}
	return errors.Join(errs[:]...)
}
