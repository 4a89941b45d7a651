package main

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// floors are what Go and golang.org/x/sync give without any pool.
func floors() []system {
	abandoned := map[string]maker{"deadline": on(openChannel, deadline(abandon))}
	return []system{
		{"direct", "direct call", floor, direct()},
		{"go", "`go`", floor, withQueued(simple(openGo), blockedGo())},
		{"chan", "buffered channel of closures", floor, weighed(simple(openChannel), openChannel)},
		{"chan-typed", "buffered channel of structs", floor, map[string]maker{"group": typedChannel}},
		{"errgroup", "errgroup, SetLimit", floor, simple(openErrgroup)},
		{"semaphore", "semaphore + `go`", floor, simple(openSemaphore)},
		{"chan-abandon", "channel, abandons at the deadline", floor, abandoned},
	}
}

// withQueued adds a cell of its own for tasks that wait.
func withQueued(makers map[string]maker, queued maker) map[string]maker {
	makers["queued"] = queued
	return makers
}

func direct() map[string]maker {
	inline := func(room) (pool, error) {
		return pool{func(f func()) error { f(); return nil }, func() {}}, nil
	}
	return map[string]maker{
		"one":  on(inline, one),
		"trip": on(inline, trip),
		// The others call through a closure: here is nothing but the loop.
		"group": func(s shape) (work, error) {
			w := grouped(s, fact, func(args, out []uint64) error {
				for i, a := range args {
					out[i] = fact(a)
				}
				return nil
			})
			w.close = func() {}
			return w, nil
		},
		"deadline": on(inline, deadline(cooperative)),
	}
}

func openGo(room) (pool, error) {
	return pool{func(f func()) error { go f(); return nil }, func() {}}, nil
}

// blockedGo weighs goroutines that wait for a place.
func blockedGo() maker {
	return blocked(func() (pool, func() int, error) {
		var mu sync.Mutex
		waits := 0
		places := make(chan struct{}, workers)
		submit := func(f func()) error {
			select {
			case places <- struct{}{}:
			default:
				mu.Lock()
				waits++
				mu.Unlock()
				places <- struct{}{}
			}
			go func() { f(); <-places }()
			return nil
		}
		return pool{submit, func() {}}, func() int { mu.Lock(); defer mu.Unlock(); return waits }, nil
	})
}

func openChannel(r room) (pool, error) {
	tasks := make(chan func(), r.queue)
	var all sync.WaitGroup
	for range r.workers {
		all.Go(func() {
			for f := range tasks {
				f()
			}
		})
	}
	return pool{func(f func()) error { tasks <- f; return nil }, func() { close(tasks); all.Wait() }}, nil
}

// typedTask is what a channel of structs carries.
type typedTask struct {
	arg  uint64
	out  *uint64
	done *sync.WaitGroup
}

func typedChannel(s shape) (work, error) {
	tasks := make(chan typedTask, queue)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for t := range tasks {
				*t.out = fact(t.arg)
				t.done.Done()
			}
		})
	}
	w := typedGroup(s, func(t typedTask) error { tasks <- t; return nil })
	w.close = func() { close(tasks); all.Wait() }
	return w, nil
}

// typedGroup submits a group of values instead of closures.
func typedGroup(s shape, submit func(typedTask) error) work {
	var wg sync.WaitGroup
	return grouped(s, fact, func(args, out []uint64) error {
		wg.Add(len(args))
		for i, a := range args {
			if err := submit(typedTask{a, &out[i], &wg}); err != nil {
				return err
			}
		}
		wg.Wait()
		return nil
	})
}

// openErrgroup pays for one more closure a task: the functions of a group give an
// error.
func openErrgroup(r room) (pool, error) {
	var g errgroup.Group
	g.SetLimit(r.workers)
	submit := func(f func()) error { g.Go(func() error { f(); return nil }); return nil }
	return pool{submit, func() { _ = g.Wait() }}, nil // none gives an error
}

func openSemaphore(r room) (pool, error) {
	places := semaphore.NewWeighted(int64(r.workers))
	ctx := context.Background()
	submit := func(f func()) error {
		if err := places.Acquire(ctx, 1); err != nil {
			return err
		}
		go func() { defer places.Release(1); f() }()
		return nil
	}
	return pool{submit, func() { _ = places.Acquire(ctx, int64(r.workers)) }}, nil // it cannot end early
}
