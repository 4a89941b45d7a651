package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/level"
)

// What a testDaemon reports of its pools as they are now.

func (h *testDaemon) Overview(ctx context.Context) (Overview, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	if h.fails != nil {
		return Overview{}, h.fails
	}
	p := PoolNow{Name: "main", State: "open", Taken: 2, Oldest: time.Unix(1, 0), Workers: 3, Max: 8, Point: history.Point{Waiting: float32(h.depth), Running: 1, Rate: 2.5, WaitP50: float32(math.NaN())}}
	total := p
	total.Name, total.State = "", ""
	return Overview{Pools: []PoolNow{p}, Total: total}, ctx.Err()
}

func (h *testDaemon) History(pool string, span time.Duration) (history.Series, error) {
	if pool != "" && !slices.Contains(h.Pools(), pool) {
		return history.Series{}, fmt.Errorf("%w: %q", ErrNoPool, pool)
	}
	nan := float32(math.NaN())
	points := []history.Point{
		{Waiting: nan, Oldest: nan, Running: nan, Rate: nan, Errors: nan, WaitP50: nan, WaitP99: nan, RunP50: nan, RunP99: nan},
		{Waiting: 1, Oldest: 2.00001, Running: 3, Rate: 1.23456, Errors: 0, WaitP50: 0.00123456, WaitP99: 1, RunP50: 1, RunP99: 12345678},
	}
	return history.Series{From: time.Unix(100, 0), Step: span / 2, Points: points}, nil
}

func (h *testDaemon) Workers(pool string) ([]level.Worker, error) {
	switch {
	case !slices.Contains(h.Pools(), pool):
		return nil, fmt.Errorf("%w: %q", ErrNoPool, pool)
	case pool != "main":
		return nil, nil
	}
	return []level.Worker{
		{Name: "main-1", State: "busy", PID: 7, Served: 3, InHand: 1, Window: 2, Age: time.Minute, TaskID: nobody, TaskName: "echo", TaskAge: time.Second, Memory: 1 << 20},
		{Name: "main-2", State: "leaving", Recycling: true, Age: time.Second},
	}, nil
}

func (h *testDaemon) Recycle(pool, worker string) error {
	if !slices.Contains(h.Pools(), pool) {
		return fmt.Errorf("%w: %q", ErrNoPool, pool)
	}
	if worker != "main-1" {
		return fmt.Errorf("%w: %q", ErrNoWorker, worker)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recycled = append(h.recycled, worker)
	return h.fails
}
