package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bullpen-run/bullpen/pool"
)

var errOdd = errors.New("odd")

// half fails for odd numbers.
func half(_ context.Context, n int) (int, error) {
	if n%2 != 0 {
		return 0, errOdd
	}
	return n / 2, nil
}

func newPool() *pool.Pool {
	p, err := pool.New(pool.Config{Max: 4})
	if err != nil {
		panic(err)
	}
	return p
}

func ExamplePool_Group() {
	p := newPool()
	defer p.Close()
	g := p.Group(context.Background(), pool.GroupConfig{Limit: 2})
	for _, page := range []string{"a", "b", "c"} {
		if err := g.Go(func(context.Context) error {
			if page == "c" {
				return errors.New("not found")
			}
			return nil
		}); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	var which *pool.IndexError
	if err := g.Wait(); errors.As(err, &which) {
		fmt.Println("page", which.Index, "failed")
	}
	// Output: page 2 failed
}

func ExampleLane_Group() {
	p := newPool()
	defer p.Close()
	database, err := p.Lane(pool.LaneConfig{Name: "database", Limit: 1})
	if err != nil {
		panic(err)
	}
	g := database.Group(context.Background(), pool.GroupConfig{})
	sum := 0 // one at a time
	for n := range 5 {
		if err := g.Go(func(context.Context) error { sum += n; return nil }); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	fmt.Println(g.Wait(), sum)
	// Output: <nil> 10
}

func ExampleSubmitter_Group() {
	p := newPool()
	defer p.Close()
	g := p.With(pool.Options{Name: "cleaning", Priority: pool.Low}).Group(context.Background(), pool.GroupConfig{})
	err := g.Go(func(context.Context) error { return nil })
	fmt.Println(err, g.Wait())
	// Output: <nil> <nil>
}

func ExampleGroup_Go() {
	p := newPool()
	defer p.Close()
	g := p.Group(context.Background(), pool.GroupConfig{})
	fmt.Println(g.Go(func(context.Context) error { panic("oh") }))
	fmt.Println(g.Wait())
	fmt.Println(g.Go(func(context.Context) error { return nil }))
	// Output:
	// <nil>
	// task 0: task "task" panic: panic: oh
	// the group has ended: make a new one for more tasks
}

func ExampleGroup_Wait() {
	p := newPool()
	defer p.Close()
	g := p.Group(context.Background(), pool.GroupConfig{})
	fmt.Println(g.Wait()) // there is nothing to wait for
	// Output: <nil>
}

func ExampleGroup_Errors() {
	p := newPool()
	defer p.Close()
	g := p.Group(context.Background(), pool.GroupConfig{Errors: pool.AllErrors})
	for n := range 3 {
		if err := g.Go(func(ctx context.Context) error { _, err := half(ctx, n); return err }); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	for i, err := range g.Errors() {
		fmt.Println(i, errors.Is(err, errOdd))
	}
	// Output:
	// 0 false
	// 1 true
	// 2 false
}

func ExampleFunc_Group() {
	p := newPool()
	defer p.Close()
	g := pool.NewFunc(p, half).Group(context.Background(), pool.GroupConfig{})
	for _, n := range []int{2, 4, 6} {
		if err := g.Go(n); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	fmt.Println(g.Wait())
	// Output: [1 2 3] <nil>
}

func ExampleFuncGroup_Go() {
	p := newPool()
	defer p.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the caller has gone"))
	g := pool.NewFunc(p, half).Group(ctx, pool.GroupConfig{})
	fmt.Println(g.Go(2))
	// Output: the group accepts no more tasks: the caller has gone
}

func ExampleFuncGroup_Wait() {
	p := newPool()
	defer p.Close()
	g := pool.NewFunc(p, half).Group(context.Background(), pool.GroupConfig{Errors: pool.AllErrors})
	for n := range 4 {
		if err := g.Go(n); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	fmt.Println(g.Wait())
	// Output: [0 0 1 0] 2 of 4 tasks failed, the first was task 1: task "task" failed: odd
}

func ExampleFuncGroup_Errors() {
	p := newPool()
	defer p.Close()
	g := pool.NewFunc(p, half).Group(context.Background(), pool.GroupConfig{})
	if err := g.Go(8); err != nil {
		fmt.Println("not accepted:", err)
	}
	fmt.Println(g.Errors() == nil)
	// Output: true
}

func ExampleErrorRule_String() {
	fmt.Println(pool.FirstError, pool.AllErrors)
	// Output: first error all errors
}

func ExampleFunc_All() {
	p := newPool()
	defer p.Close()
	values, err := pool.NewFunc(p, half).All(context.Background(), []int{10, 11, 12})
	fmt.Println(values)
	var failures pool.Failures
	if errors.As(err, &failures) {
		for i, err := range failures {
			fmt.Println(i, errors.Is(err, errOdd))
		}
	}
	// Output:
	// [5 0 6]
	// 0 false
	// 1 true
	// 2 false
}

func ExampleFunc_Map() {
	p := newPool()
	defer p.Close()
	numbers := func(yield func(int) bool) { // without an end
		for n := 0; yield(n); n += 2 {
		}
	}
	for v, err := range pool.NewFunc(p, half).Map(context.Background(), numbers) {
		if err != nil || v == 3 {
			break
		}
		fmt.Println(v)
	}
	// Output:
	// 0
	// 1
	// 2
}

func ExampleFunc_AsCompleted() {
	p := newPool()
	defer p.Close()
	for e := range pool.NewFunc(p, half).AsCompleted(context.Background(), slices.Values([]int{8, 20, 6})) {
		fmt.Println(e.Index, e.Arg, e.Value, e.Err)
	}
	// Unordered output:
	// 0 8 4 <nil>
	// 1 20 10 <nil>
	// 2 6 3 <nil>
}

func ExampleFailures_Unwrap() {
	err := error(pool.Failures{nil, errOdd})
	var which *pool.IndexError
	fmt.Println(errors.As(err, &which), which.Index, errors.Is(err, errOdd))
	// Output: true 1 true
}

func ExampleThen() {
	p := newPool()
	defer p.Close()
	ctx := context.Background()
	number, err := pool.NewFunc(p, half).Submit(ctx, 20)
	if err != nil {
		panic(err)
	}
	text, err := pool.Then(number, p, func(_ context.Context, n int) (string, error) { return fmt.Sprint("it is ", n), nil })
	if err != nil {
		panic(err)
	}
	fmt.Println(text.Wait(ctx))
	// Output: it is 10 <nil>
}

func ExampleWhenAll() {
	p := newPool()
	defer p.Close()
	ctx := context.Background()
	f := pool.NewFunc(p, half)
	a, errA := f.Submit(ctx, 2)
	b, errB := f.Submit(ctx, 4)
	if err := errors.Join(errA, errB); err != nil {
		panic(err)
	}
	fmt.Println(pool.WhenAll(ctx, a, b))
	// Output: [1 2] <nil>
}

func ExampleWhenAny() {
	p := newPool()
	defer p.Close()
	ctx := context.Background()
	slow, errA := pool.Submit(ctx, p, func(ctx context.Context) (string, error) {
		<-ctx.Done() // until the pool is closed
		return "slow", nil
	})
	fast, errB := pool.Submit(ctx, p, func(context.Context) (string, error) { return "fast", nil })
	if err := errors.Join(errA, errB); err != nil {
		panic(err)
	}
	fmt.Println(pool.WhenAny(ctx, slow, fast))
	// Output: 1 fast <nil>
}

func ExampleRun() {
	err := pool.Run(context.Background(), pool.Config{Max: 2},
		func(context.Context) error { return nil },
		func(context.Context) error { return errOdd },
	)
	var failures pool.Failures
	fmt.Println(errors.As(err, &failures), failures[0], failures[1])
	// Output: true <nil> task "task" failed: odd
}

func ExampleIncompleteError_Error() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := pool.Run(ctx, pool.Config{}, func(context.Context) error { return nil })
	var missing *pool.IncompleteError
	fmt.Println(errors.As(err, &missing), missing)
	// Output: true 1 of 1 tasks did not start: context canceled
}

func ExampleIndexError_Unwrap() {
	err := error(&pool.IndexError{Index: 3, Err: errOdd})
	fmt.Println(err, errors.Is(err, errOdd))
	// Output: task 3: odd true
}
