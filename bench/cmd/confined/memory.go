package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"

	proc "github.com/bullpen-run/bullpen/bench/internal/cell"
)

// memoryWorkers is how many workers are weighed.
const memoryWorkers = 20

func memoryPart() part {
	p := part{
		id: "memory", title: fmt.Sprintf("(a) Memory of %d idle Python workers, MiB for each", memoryWorkers),
		note:    "Private is what a worker shares with no other process: new, and after one task each. RSS counts shared pages too.",
		columns: []column{{"private_mb", "private, new", 2}, {"worked_mb", "private, after a task", 2}, {"rss_mb", "RSS", 1}},
	}
	for _, load := range loads {
		for _, way := range []struct {
			id, title string
			kind      kind
		}{{"ours", "Preload", ours}, {"exec", "exec", others}} {
			id := "memory/" + way.id + "-" + load.id
			p.rows = append(p.rows, row{id, way.title + ", " + load.title, way.kind})
			p.cells = append(p.cells, single(id, func(ctx context.Context, _ options, at places) (metrics, error) {
				return weigh(ctx, pythonConfig(at, load.module, way.kind == ours))
			}))
		}
	}
	return p
}

// weigh starts the workers and looks at their memory.
func weigh(ctx context.Context, c process.Config) (metrics, error) {
	c.Max = memoryWorkers
	p, err := process.New(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }() // what it has to say does not change the figures
	feed := p.Events(8 * memoryWorkers)
	defer feed.Close()
	if err := p.Ready(ctx, memoryWorkers); err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range drain(feed) {
		if e.Kind == process.Ready {
			pids = append(pids, e.PID)
		}
	}
	if len(pids) != memoryWorkers {
		return nil, fmt.Errorf("%d workers became ready, not %d", len(pids), memoryWorkers)
	}
	fresh, err := proc.MemoryOf(pids)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	errs := make(chan error, memoryWorkers)
	for range memoryWorkers {
		all.Go(func() { // ends with its task
			_, err := p.Execute(ctx, bullpen.Task{Name: "rest"})
			errs <- err
		})
	}
	all.Wait()
	for range memoryWorkers {
		if err := <-errs; err != nil {
			return nil, err
		}
	}
	worked, err := proc.MemoryOf(pids)
	if err != nil {
		return nil, err
	}
	return metrics{"private_mb": fresh.Metrics["uss_mb"], "worked_mb": worked.Metrics["uss_mb"], "rss_mb": worked.Metrics["rss_mb"]}, nil
}
