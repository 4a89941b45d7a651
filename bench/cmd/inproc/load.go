package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pool is a contender as the experiments see it that are the same for all. Every
// one of them is called through a function value: about 1 ns more for each.
type pool struct {
	submit func(func()) error
	close  func()
}

// room is how large a pool is opened.
type room struct{ workers, queue int }

type opener func(room) (pool, error)

var usual = room{workers, queue}

// simple gives the makers that need a way to submit a closure and nothing else.
func simple(open opener) map[string]maker {
	return map[string]maker{
		"one":      on(open, one),
		"many":     on(open, many),
		"trip":     on(open, trip),
		"group":    on(open, group),
		"deadline": on(open, deadline(cooperative)),
	}
}

func on(open opener, make func(pool, shape) work) maker {
	return func(s shape) (work, error) {
		p, err := open(usual)
		if err != nil {
			return work{}, err
		}
		w := make(p, s)
		w.close = p.close
		return w, nil
	}
}

// one is a single producer. A task that ran twice would make the wait group panic,
// one that did not run would make it wait forever.
func one(p pool, _ shape) work {
	var wg sync.WaitGroup
	done := wg.Done
	return work{tasks: 1, run: func(n int) error {
		wg.Add(n)
		for range n {
			if err := p.submit(done); err != nil {
				return err
			}
		}
		wg.Wait()
		return nil
	}}
}

// many is the same with more producers; a unit is a task of each.
func many(p pool, s shape) work {
	return producing(s.producers, p.submit, 1)
}

// producing runs producers that submit batch tasks by one call.
func producing(producers int, submit func(func()) error, batch int) work {
	var wg sync.WaitGroup
	done := wg.Done
	return work{tasks: producers * batch, run: func(n int) error {
		wg.Add(n * producers * batch)
		failed := make(chan error, producers)
		for range producers {
			go func() { // ends when it has submitted all; its error is waited for below
				for range n {
					if err := submit(done); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		for range producers {
			if err := <-failed; err != nil {
				return err
			}
		}
		wg.Wait()
		return nil
	}}
}

// trip submits one task and waits for its value, which comes by a channel that is
// made once.
func trip(p pool, _ shape) work {
	var arg uint64
	back := make(chan uint64, 1)
	task := func() { back <- arg + 1 }
	return trips(func(a uint64) (uint64, error) {
		arg = a
		if err := p.submit(task); err != nil {
			return 0, err
		}
		return <-back, nil
	})
}

// trips is a round trip by call, which must give its argument plus one.
func trips(call func(uint64) (uint64, error)) work {
	return work{tasks: 1, run: func(n int) error {
		for i := range uint64(n) {
			v, err := call(i)
			if err != nil {
				return err
			}
			if v != i+1 {
				return fmt.Errorf("task %d gave %d", i, v)
			}
		}
		return nil
	}}
}

// fact multiplies 1 to n; above 20 the product wraps around.
//
//go:noinline
func fact(n uint64) uint64 {
	product := uint64(1)
	for i := uint64(2); i <= n; i++ {
		product *= i
	}
	return product
}

// group submits a closure for each task of a group and waits for all.
func group(p pool, s shape) work {
	return grouped(s, fact, func(args, out []uint64) error {
		var wg sync.WaitGroup
		wg.Add(len(args))
		for i, a := range args {
			if err := p.submit(func() { out[i] = fact(a); wg.Done() }); err != nil {
				return err
			}
		}
		wg.Wait()
		return nil
	})
}

// grouped repeats do, which writes the results of a group into out, and compares
// their sum with the right one.
func grouped(s shape, f func(uint64) uint64, do func(args, out []uint64) error) work {
	args, want := s.args(f)
	out := make([]uint64, len(args))
	return work{tasks: s.size, run: func(n int) error {
		for range n {
			clear(out)
			if err := do(args, out); err != nil {
				return err
			}
			if got := sum(out); got != want {
				return fmt.Errorf("the results of %d tasks add up to %d, not to %d", len(args), got, want)
			}
		}
		return nil
	}}
}

func sum(all []uint64) (total uint64) {
	for _, v := range all {
		total += v
	}
	return total
}

// limit is the deadline of every task that has one: it never passes.
const limit = 10 * time.Second

// polite is the body of a task with a deadline: it looks at its context once.
func polite(ctx context.Context, a uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return a + 1, nil
}

func plusOne(a uint64) uint64 { return a + 1 }

// cooperative gives a task a deadline that it must look at by itself: a body that
// does not keeps the worker.
func cooperative(a uint64, out *uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	*out, _ = polite(ctx, a) // an error leaves 0, which the sum shows
	cancel()
}

// abandon gives the worker free at the deadline whatever the body does.
func abandon(a uint64, out *uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan uint64, 1)
	go func() { // ends with the body; nobody waits for one that is too late
		v, _ := polite(ctx, a)
		done <- v
	}()
	select {
	case *out = <-done:
	case <-ctx.Done():
	}
}

// deadline submits groups of tasks with a deadline. Their closures are made once,
// so that what is allocated is what the deadline costs.
func deadline(body func(a uint64, out *uint64)) func(pool, shape) work {
	return func(p pool, s shape) work {
		var wg sync.WaitGroup
		var tasks []func()
		return grouped(s, plusOne, func(args, out []uint64) error {
			for i := len(tasks); i < len(args); i++ { // in the first group only
				tasks = append(tasks, func() { body(args[i], &out[i]); wg.Done() })
			}
			wg.Add(len(tasks))
			for _, f := range tasks {
				if err := p.submit(f); err != nil {
					return err
				}
			}
			wg.Wait()
			return nil
		})
	}
}
