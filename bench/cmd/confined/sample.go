package main

import (
	"context"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/process"
)

// quantile gives the time that the part q of all does not exceed, 0 where there is
// none. It sorts all.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// put adds the median and the 99th percentile of all under keys that begin with
// name, in microseconds.
func (m metrics) put(name string, all []time.Duration) {
	m[name+"p50_us"] = microseconds(quantile(all, 0.50))
	m[name+"p99_us"] = microseconds(quantile(all, 0.99))
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

// idle waits until n workers of the pool idle. feed must hear all that happens in
// the pool.
func idle(ctx context.Context, p *process.Pool, feed *process.Feed, n int) error {
	for p.Stats().Idle < n {
		select {
		case <-feed.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// drain gives the events that have happened.
func drain(feed *process.Feed) (events []process.Event) {
	for {
		select {
		case e, ok := <-feed.C:
			if !ok {
				return events
			}
			events = append(events, e)
		default:
			return events
		}
	}
}
