package pool_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func ExamplePool_Stats() {
	p, err := pool.New(pool.Config{Name: "images", Max: 2})
	if err != nil {
		panic(err)
	}
	f := pool.NewFunc(p.With(pool.Options{Name: "double"}), double)
	for n := range 3 {
		if _, err := f.Call(context.Background(), n); err != nil {
			panic(err)
		}
	}
	if err := p.Drain(context.Background()); err != nil {
		panic(err)
	}
	s := p.Stats()
	fmt.Println(s.State, s.Total(), s.Failed(), s.Tasks["double"].Outcomes[bullpen.OK])
	// Output: closed 3 0 3
}

func ExampleTaskStats_Total() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	for _, n := range []int{1, 2, 0} {
		f, err := pool.Submit(context.Background(), p.With(pool.Options{Name: "divide"}), func(context.Context) (int, error) {
			return 10 / n, nil // panics for 0
		})
		if err != nil {
			panic(err)
		}
		if _, err := f.Wait(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	s := p.Stats().Tasks["divide"]
	fmt.Println(s.Total(), "ended,", s.Failed(), "without a result")
	// Output:
	// task "divide" panic: panic: runtime error: integer divide by zero
	// 3 ended, 1 without a result
}

func ExampleTaskStats_run() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	f, err := pool.Submit(context.Background(), p, func(context.Context) (int, error) {
		<-time.After(50 * time.Millisecond)
		return 0, nil
	})
	if err != nil {
		panic(err)
	}
	if _, err := f.Wait(context.Background()); err != nil {
		panic(err)
	}
	if err := p.Drain(context.Background()); err != nil {
		panic(err)
	}
	run := p.Stats().Tasks["task"].Run
	fmt.Println(run.Count, run.Mean() >= 50*time.Millisecond, run.Quantile(0.99) >= 50*time.Millisecond)
	// Output: 1 true true
}

func ExamplePool_Events() {
	p, err := pool.New(pool.Config{Name: "images", Max: 1})
	if err != nil {
		panic(err)
	}
	feed := p.Events(0)
	defer feed.Close()
	if err := p.Go(context.Background(), func() { panic("no film") }); err != nil {
		panic(err)
	}
	if err := p.Drain(context.Background()); err != nil {
		panic(err)
	}
	for e := range feed.C { // closed when the pool has ended
		fmt.Println(e)
	}
	fmt.Println(feed.Dropped(), "events lost")
	// Unordered output:
	// images-1 started
	// images-1 panicked task "task": panic: no film
	// pool changed state: draining
	// images-1 stopped
	// pool changed state: closed
	// 0 events lost
}

func ExamplePoolStates() {
	for _, s := range pool.PoolStates() {
		fmt.Println(s)
	}
	// Output:
	// open
	// draining
	// stopping
	// closing
	// closed
}
