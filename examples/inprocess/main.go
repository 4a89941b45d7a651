// Command inprocess shows a goroutine pool at work: typed functions, a deadline
// that is kept although the body ignores it, a panic that ends one task, and a
// lane that bounds what uses a database.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p, err := pool.New(pool.Config{Max: 4, Queue: 1024})
	if err != nil {
		return err
	}

	// A typed function: nothing is allocated for a task.
	square := pool.NewFunc(p, func(_ context.Context, n int) (int, error) { return n * n, nil })
	for v, err := range square.Map(ctx, slices.Values([]int{1, 2, 3})) {
		fmt.Println(v, err) // in order; leaving the loop cancels the rest
	}

	// A deadline: the caller is answered then, whatever the body does.
	slow := p.With(pool.Options{Name: "slow", Timeout: 20 * time.Millisecond})
	answer, err := pool.Submit(ctx, slow, func(context.Context) (string, error) {
		<-time.After(200 * time.Millisecond) // it ignores its context
		return "too late", nil
	})
	if err != nil {
		return err // it was not accepted
	}
	_, err = answer.Wait(ctx)
	outcome, started := bullpen.OutcomeOf(err)
	fmt.Println(outcome, started)

	// A group: the first failure cancels the rest. Panics are failures.
	g := p.Group(ctx, pool.GroupConfig{})
	if err := g.Go(func(context.Context) error { panic("no such page") }); err != nil {
		return err
	}
	outcome, started = bullpen.OutcomeOf(g.Wait())
	fmt.Println(outcome, started)

	// A lane: at most 10 bodies use the database at once, 200 may wait for it.
	db, err := p.Lane(pool.LaneConfig{Name: "orders-db", Limit: 10, Queue: 200, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	total, err := pool.NewFunc(db, func(_ context.Context, order string) (int, error) { return len(order), nil }).Call(ctx, "A-17")
	fmt.Println(total, err)

	return p.Drain(ctx) // finish what was accepted, leave nothing behind
}
