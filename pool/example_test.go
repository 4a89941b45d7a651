package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

func factorial(_ context.Context, n uint64) (uint64, error) {
	product := uint64(1)
	for i := uint64(2); i <= n; i++ {
		product *= i
	}
	return product, nil
}

// A pool, one task, one typed result.
func Example() {
	p, err := pool.New(pool.Config{Min: 2, Max: 16, Queue: 1024})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	ctx := context.Background()
	future, err := pool.Submit(ctx, p, func(context.Context) (string, error) { return "rendered", nil })
	if err != nil {
		fmt.Println("not accepted:", err)
		return
	}
	fmt.Println(future.Wait(ctx))
	// Output: rendered <nil>
}

func ExampleNew() {
	_, err := pool.New(pool.Config{Min: 4, Max: 2, Timeout: -time.Second})
	fmt.Println(err)
	// Output:
	// pool: Min is 4 and Max is 2: Min must not be larger than Max
	// Timeout is -1s: use a positive duration, or 0 for none
}

func ExamplePool_Go() {
	p, _ := pool.New(pool.Config{Max: 4})
	defer p.Close()
	var sum atomic.Int64
	for n := range int64(100) {
		if err := p.Go(context.Background(), func() { sum.Add(n) }); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	_ = p.Drain(context.Background())
	fmt.Println(sum.Load())
	// Output: 4950
}

func ExamplePool_GoAll() {
	p, _ := pool.New(pool.Config{Max: 4})
	defer p.Close()
	var sum atomic.Int64
	batch := make([]func(), 100)
	for n := range batch {
		batch[n] = func() { sum.Add(int64(n)) }
	}
	fmt.Println(p.GoAll(context.Background(), batch))
	_ = p.Drain(context.Background())
	fmt.Println(sum.Load())
	// Output:
	// 100 <nil>
	// 4950
}

// Tasks of one kind with a name, a deadline and a priority of their own.
func ExamplePool_With() {
	p, _ := pool.New(pool.Config{Name: "reports"})
	defer p.Close()
	nightly := p.With(pool.Options{Name: "nightly", Timeout: 10 * time.Millisecond, Priority: pool.Low})
	future, _ := pool.Submit(context.Background(), nightly, func(ctx context.Context) (int, error) {
		<-ctx.Done() // it takes too long
		return 0, ctx.Err()
	})
	_, err := future.Wait(context.Background())
	var te *bullpen.TaskError
	fmt.Println(errors.As(err, &te), te.Task, te.Outcome)
	// Output: true nightly timeout
}

func ExampleSubmitter_With() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	thumbnails := p.With(pool.Options{Name: "thumbnail", Timeout: time.Second})
	urgent := thumbnails.With(pool.Options{Priority: pool.High})
	v, err := pool.NewFunc(urgent, factorial).Call(context.Background(), 5)
	fmt.Println(v, err)
	// Output: 120 <nil>
}

func ExampleSubmitter_Go() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	var done sync.WaitGroup
	done.Add(1)
	_ = p.With(pool.Options{Name: "cleanup", Priority: pool.Low}).Go(context.Background(), done.Done)
	done.Wait()
	fmt.Println("cleaned up")
	// Output: cleaned up
}

func ExampleSubmit() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	ctx := context.Background()
	future, err := pool.Submit(ctx, p, func(context.Context) (int, error) { panic("no such page") })
	if err != nil {
		fmt.Println("not accepted:", err)
		return
	}
	_, err = future.Wait(ctx)
	outcome, started := bullpen.OutcomeOf(err)
	fmt.Println(outcome, started)
	// Output: panic true
}

// A typed function: its argument travels by value, and nothing is allocated for a
// call.
func ExampleNewFunc() {
	p, _ := pool.New(pool.Config{Max: 4})
	defer p.Close()
	fact := pool.NewFunc(p, factorial)
	fmt.Println(fact.Call(context.Background(), 10))
	// Output: 3628800 <nil>
}

func ExampleFunc_Call() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := pool.NewFunc(p, func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}).Call(ctx, 1)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleFunc_Submit() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	ctx := context.Background()
	fact := pool.NewFunc(p, factorial)
	five, _ := fact.Submit(ctx, 5)
	six, _ := fact.Submit(ctx, 6)
	fmt.Println(six.Take(ctx))
	fmt.Println(five.Take(ctx))
	// Output:
	// 720 <nil>
	// 120 <nil>
}

func ExampleFuture_Wait() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	future, _ := pool.Submit(context.Background(), p, func(context.Context) (int, error) { return 42, nil })
	for range 2 { // as often as you like
		fmt.Println(future.Wait(context.Background()))
	}
	// Output:
	// 42 <nil>
	// 42 <nil>
}

func ExampleFuture_Take() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	ctx := context.Background()
	future, _ := pool.NewFunc(p, factorial).Submit(ctx, 5)
	fmt.Println(future.Take(ctx)) // its memory serves the next task
	_, err := future.Take(ctx)
	fmt.Println(errors.Is(err, pool.ErrTaken))
	// Output:
	// 120 <nil>
	// true
}

func ExampleFuture_Done() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	future, _ := pool.Submit(context.Background(), p, func(context.Context) (int, error) { return 42, nil })
	select {
	case <-future.Done():
		fmt.Println(future.Wait(context.Background()))
	case <-time.After(time.Minute):
		fmt.Println("still running")
	}
	// Output: 42 <nil>
}

func ExampleFuture_Cancel() {
	p, _ := pool.New(pool.Config{Max: 1})
	defer p.Close()
	ctx := context.Background()
	release := make(chan struct{})
	_ = p.Go(ctx, func() { <-release })
	waiting, _ := pool.Submit(ctx, p, func(context.Context) (int, error) { return 42, nil })
	waiting.Cancel(errors.New("the user has left"))
	_, err := waiting.Wait(ctx)
	_, started := bullpen.OutcomeOf(err)
	fmt.Println(err, started)
	close(release)
	// Output: task "task": the user has left false
}

// A pool that serves named handlers is an executor, which can be exchanged for
// worker processes by configuration.
func ExamplePool_Submit() {
	p, _ := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{
		"greet": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return append([]byte("hello "), t.Payload...), nil
		},
	}})
	defer p.Close()
	var e bullpen.Executor = p
	res, err := bullpen.Execute(context.Background(), e, bullpen.Task{Name: "greet", Payload: []byte("you")})
	fmt.Printf("%s %v\n", res.Payload, err)
	_, err = bullpen.Execute(context.Background(), e, bullpen.Task{Name: "greet", Limits: bullpen.Limits{Memory: 1 << 20}})
	fmt.Println(errors.Is(err, bullpen.ErrRefused))
	// Output:
	// hello you <nil>
	// true
}

func ExamplePool_Capacity() {
	p, _ := pool.New(pool.Config{Max: 3})
	defer p.Close()
	fmt.Println(p.Capacity())
	// Output: 3
}

func ExamplePool_Guarantees() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	g := p.Guarantees()
	fmt.Println(g.Exact, g.Preemptive)
	// Output: true false
}

func ExamplePool_Drain() {
	p, _ := pool.New(pool.Config{Max: 1})
	ran := 0
	for range 10 {
		_ = p.Go(context.Background(), func() { ran++ })
	}
	fmt.Println(p.Drain(context.Background()), ran)
	fmt.Println(errors.Is(p.Go(context.Background(), func() {}), bullpen.ErrClosed))
	// Output:
	// <nil> 10
	// true
}

func ExamplePool_Stop() {
	p, _ := pool.New(pool.Config{Max: 1})
	ctx := context.Background()
	started, release := make(chan struct{}), make(chan struct{})
	first, _ := pool.Submit(ctx, p, func(context.Context) (string, error) {
		close(started)
		<-release
		return "finished", nil
	})
	second, _ := pool.Submit(ctx, p, func(context.Context) (string, error) { return "", nil })
	<-started
	go func() {
		<-second.Done() // Stop has failed what waited
		close(release)
	}()
	fmt.Println(p.Stop(ctx))
	fmt.Println(first.Wait(ctx))
	_, err := second.Wait(ctx)
	fmt.Println(errors.Is(err, bullpen.ErrClosed))
	// Output:
	// <nil>
	// finished <nil>
	// true
}

func ExamplePool_Close() {
	p, _ := pool.New(pool.Config{})
	ctx := context.Background()
	started := make(chan struct{})
	future, _ := pool.Submit(ctx, p, func(ctx context.Context) (int, error) {
		close(started)
		<-ctx.Done()
		return 0, ctx.Err()
	})
	<-started
	fmt.Println(p.Close())
	_, err := future.Wait(ctx)
	fmt.Println(bullpen.OutcomeOf(err))
	// Output:
	// <nil>
	// canceled true
}

func ExamplePool_Resize() {
	p, _ := pool.New(pool.Config{Max: 2})
	defer p.Close()
	fmt.Println(p.Resize(1, 8))
	fmt.Println(p.Resize(9, 8))
	// Output:
	// <nil>
	// pool "pool": resize: Min is 9 and Max is 8: Min must not be larger than Max
}

func ExamplePool_Name() {
	p, _ := pool.New(pool.Config{Name: "images"})
	defer p.Close()
	fmt.Println(p.Name())
	// Output: images
}

func ExamplePool_State() {
	p, _ := pool.New(pool.Config{})
	fmt.Println(p.State())
	_ = p.Close()
	fmt.Println(p.State())
	// Output:
	// open
	// closed
}

// A pool of two interpreters, which are made when they are needed.
func ExampleNewStates() {
	p, _ := pool.New(pool.Config{Max: 8})
	defer p.Close()
	type interpreter struct{ name string }
	states, err := pool.NewStates(p, pool.StateConfig[*interpreter]{
		Name: "interpreters", Limit: 2, LimitEnv: "INTERPRETERS",
		New: func(context.Context, *slog.Logger) (*interpreter, error) {
			return &interpreter{name: "an interpreter"}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	eval := pool.NewFuncWithState(states, func(_ context.Context, in *interpreter, script string) (string, error) {
		return script + " by " + in.name, nil
	})
	fmt.Println(eval.Call(context.Background(), "1 + 1"))
	fmt.Println(states.Stats().Made, states.Lane().Name())
	// Output:
	// 1 + 1 by an interpreter <nil>
	// 1 interpreters
}

func ExampleNewFuncWithState() {
	p, _ := pool.New(pool.Config{})
	defer p.Close()
	buffers, _ := pool.NewStates(p, pool.StateConfig[[]byte]{
		Name: "buffers",
		New:  func(context.Context, *slog.Logger) ([]byte, error) { return make([]byte, 0, 1<<20), nil },
	})
	size := pool.NewFuncWithState(buffers, func(_ context.Context, b []byte, text string) (int, error) {
		return len(append(b, text...)), nil
	})
	fmt.Println(size.Call(context.Background(), "encoded"))
	// Output: 7 <nil>
}
