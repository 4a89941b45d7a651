package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// overrun is the time that tasks get which never end.
const overrun = 20 * time.Millisecond

func timeoutPart() part {
	p := part{
		id: "timeout", title: "(e) Tasks that overrun their time",
		note: lines(fmt.Sprintf("A Go task spins and ignores that it is asked to end; it has %v, the pool `Grace: 1ns`.", overrun),
			"*Late* is how long after that its caller has the answer; then another task is handed over at once, which does nothing, and *next* is how long that takes, with a spare worker or with a pool of one."),
		columns: []column{{"late_p50_us", "late p50 µs", 0}, {"late_p99_us", "late p99 µs", 0}, {"next_p50_us", "next p50 µs", 0}, {"next_p99_us", "next p99 µs", 0}},
	}
	for _, spare := range []bool{true, false} {
		for _, way := range []struct {
			id, title string
			context   bool
		}{{"limit", "Limits.Timeout", false}, {"context", "deadline of the context", true}} {
			id, title := "timeout/"+way.id, way.title
			if spare {
				id, title = id+"-spare", title+", a spare"
			}
			p.rows = append(p.rows, row{id, title, ours})
			p.cells = append(p.cells, single(id, func(ctx context.Context, o options, at places) (metrics, error) {
				return overruns(ctx, o, at, spare, way.context)
			}))
		}
	}
	return p
}

// overruns measures tasks that never end.
func overruns(ctx context.Context, o options, at places, spare, byContext bool) (m metrics, err error) {
	c := process.Config{Command: []string{at.rough()}, Min: 1, Max: 1, Grace: 1}
	want := 1
	if spare {
		c.Max, c.Spare, want = 2, 1, 2
	}
	p, err := process.New(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	feed := p.Events(0)
	defer feed.Close()
	var late, next []time.Duration
	for range pick(o, 60, 10) {
		if err := p.Ready(ctx, want); err != nil {
			return nil, err
		}
		if err := idle(ctx, p, feed, want); err != nil {
			return nil, err
		}
		l, err := overrunOnce(ctx, p, byContext)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := p.Execute(ctx, bullpen.Task{Name: "null"}); err != nil {
			return nil, err
		}
		late, next = append(late, l), append(next, time.Since(begin))
	}
	m = metrics{}
	m.put("late_", late)
	m.put("next_", next)
	return m, nil
}

// overrunOnce gives how long after its time a task was answered.
func overrunOnce(ctx context.Context, p *process.Pool, byContext bool) (time.Duration, error) {
	t := bullpen.Task{Name: "spin"}
	begin := time.Now()
	if byContext {
		limited, stop := context.WithDeadline(ctx, begin.Add(overrun))
		defer stop()
		ctx = limited
	} else {
		t.Limits.Timeout = overrun
	}
	_, err := p.Execute(ctx, t)
	late := time.Since(begin) - overrun
	if outcome, started := bullpen.OutcomeOf(err); outcome != bullpen.Timeout || !started {
		return 0, fmt.Errorf("a task that never ends gave %v, %v, not the outcome timeout: %w", outcome, started, err)
	}
	return late, nil
}
