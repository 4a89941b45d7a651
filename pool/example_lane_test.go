package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

// A lane of three for a database that bears three queries at a time, in a pool that
// has more workers for other work.
func ExamplePool_Lane() {
	p, err := pool.New(pool.Config{Max: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	database, err := p.Lane(pool.LaneConfig{Name: "database", Limit: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	var open, most atomic.Int64
	query := pool.NewFunc(database, func(_ context.Context, id int) (string, error) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		return fmt.Sprint("row ", id), nil
	})
	var futures []pool.Future[string]
	for id := range 10 {
		f, err := query.Submit(context.Background(), id)
		if err != nil {
			fmt.Println(err)
			return
		}
		futures = append(futures, f)
	}
	for _, f := range futures[8:] {
		row, err := f.Wait(context.Background())
		fmt.Println(row, err)
	}
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("never more than 3:", most.Load() <= 3)
	// Output:
	// row 8 <nil>
	// row 9 <nil>
	// never more than 3: true
}

// Tasks of a lane start no faster than its rate.
func ExamplePool_Lane_rate() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls, err := p.Lane(pool.LaneConfig{Name: "calls", Rate: 100, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	begin := time.Now()
	for range 4 {
		if err := calls.Go(context.Background(), func() {}); err != nil {
			fmt.Println(err)
		}
	}
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("two at once, two 10 ms apart:", time.Since(begin) >= 20*time.Millisecond)
	// Output: two at once, two 10 ms apart: true
}

// A lane that is full refuses tasks.
func ExampleLane_Go() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mail, err := p.Lane(pool.LaneConfig{Name: "mail", Limit: 1, Queue: 1, Overflow: pool.Reject})
	if err != nil {
		fmt.Println(err)
		return
	}
	running, end := make(chan struct{}), make(chan struct{})
	send := func() error { return mail.Go(context.Background(), func() { running <- struct{}{}; <-end }) }
	fmt.Println("the first:", send())
	<-running
	fmt.Println("the second:", send())
	fmt.Println("the third is overload:", errors.Is(send(), bullpen.ErrOverloaded))
	close(end)
	<-running
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the first: <nil>
	// the second: <nil>
	// the third is overload: true
}

func ExampleLane_Stats() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "reports", Limit: 1, Queue: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	running, end := make(chan struct{}), make(chan struct{})
	for range 3 {
		if err := lane.Go(context.Background(), func() { running <- struct{}{}; <-end }); err != nil {
			fmt.Println(err)
		}
	}
	<-running
	s := lane.Stats()
	fmt.Printf("%s: %d of %d run, %d of %d wait\n", lane.Name(), s.Running, s.Limit, s.Queued, s.Queue)
	close(end)
	<-running
	<-running
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(lane.Stats().Started, "were started")
	// Output:
	// reports: 1 of 1 run, 2 of 20 wait
	// 3 were started
}

// The limit of a lane may follow what is behind it.
func ExampleLane_SetLimit() {
	p, err := pool.New(pool.Config{Max: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "database", Limit: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	meet := make(chan string)
	if err := lane.Go(context.Background(), func() { meet <- "two bodies met" }); err != nil {
		fmt.Println(err)
	}
	if err := lane.Go(context.Background(), func() { fmt.Println(<-meet) }); err != nil {
		fmt.Println(err)
	}
	if err := lane.SetLimit(2); err != nil { // one alone would wait for ever
		fmt.Println(err)
	}
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: two bodies met
}

// A submitter of a lane with a name, a timeout and a delay of its own.
func ExampleLane_With() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "mail", Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	reminders := pool.NewFunc(lane.With(pool.Options{Name: "reminder", Delay: 10 * time.Millisecond, Timeout: time.Second}),
		func(_ context.Context, to string) (string, error) { return "reminded " + to, nil })
	begin := time.Now()
	fmt.Println(reminders.Call(context.Background(), "Ann"))
	fmt.Println("delayed:", time.Since(begin) >= 10*time.Millisecond)
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// reminded Ann <nil>
	// delayed: true
}

func ExampleOverflowOf() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "web", Overflow: pool.Reject})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pool.OverflowOf(p))
	fmt.Println(pool.OverflowOf(lane.With(pool.Options{Name: "page"})))
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// block
	// reject
}
