package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// hold keeps all workers of a pool busy until the function it returns is called.
func hold(t testing.TB, p *Pool, workers int) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	var running sync.WaitGroup
	running.Add(workers)
	for range workers {
		if err := p.Go(bg, func() { running.Done(); <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	running.Wait()
	return sync.OnceFunc(func() { close(gate) })
}

// TestBoundIsExact: as many tasks wait as the queue says, whichever the shards.
func TestBoundIsExact(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 4} {
		for _, bound := range []int{1, 3, 64, 1000} {
			p := openShards(t, Config{Max: 2, Queue: bound, Overflow: Reject}, shards)
			release := hold(t, p, 2)
			var accepted atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range bound {
						if err := p.Go(bg, func() {}); err == nil {
							accepted.Add(1)
						} else if !errors.Is(err, bullpen.ErrOverloaded) {
							t.Errorf("Go: %v", err)
						}
					}
				})
			}
			all.Wait()
			if n := accepted.Load(); n != int64(bound) {
				t.Errorf("%d shards: %d tasks wait, want %d", shards, n, bound)
			}
			release()
			if err := p.Drain(bg); err != nil {
				t.Error(err)
			}
			if ok := p.main.kind.total(bullpen.OK); ok != uint64(bound)+2 {
				t.Errorf("%d tasks have run, want %d", ok, bound+2)
			}
		}
	}
}

// openShards makes a pool with so many shards, whatever this machine has.
func openShards(t testing.TB, c Config, shards int) *Pool {
	t.Helper()
	p, err := newPool(c, shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestCancelWhileQueued: the end of the caller's context, and Cancel,
// end a queued task at once, free its place, and let a blocked caller in.
func TestCancelWhileQueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Queue: 2})
		release := hold(t, p, 1)
		f := NewFunc(p, func(context.Context, int) (int, error) { return 1, nil })
		ctx, cancel := context.WithCancel(bg)
		first, err := f.Submit(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.Submit(bg, 2)
		if err != nil {
			t.Fatal(err)
		}
		blocked := make(chan error, 2)
		for range 2 {
			go func() { blocked <- p.Go(bg, func() {}) }() // the test waits for both answers
		}
		synctest.Wait()
		if n := p.counters.blocked.Load(); n != 2 || len(blocked) != 0 {
			t.Fatalf("%d callers are blocked, want 2", n)
		}
		done := first.Done()
		cancel()
		<-done
		_, err = first.Wait(bg)
		wantNeverStarted(t, err, context.Canceled)
		cause := errors.New("no longer needed")
		second.Cancel(cause)
		_, err = second.Wait(bg)
		wantNeverStarted(t, err, cause)
		for range 2 {
			if err := <-blocked; err != nil {
				t.Errorf("a blocked caller was refused: %v", err)
			}
		}
		if n := p.counters.blocked.Load(); n != 0 {
			t.Errorf("%d callers are blocked, want 0", n)
		}
		release()
	})
}

// TestManyCanceled: canceled tasks leave neither places taken nor memory behind,
// while every worker is busy.
func TestManyCanceled(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1, Queue: 8, Overflow: Reject})
	release := hold(t, p, 1)
	f := NewFunc(p, func(context.Context, int) (int, error) { return 1, nil })
	for i := range 5000 {
		future, err := f.Submit(bg, i)
		if err != nil {
			t.Fatalf("task %d: %v", i, err)
		}
		future.Cancel(nil)
	}
	q := p.shards[0]
	if n := q.in.levels[Normal].n + q.out.levels[Normal].n; n > 300 {
		t.Errorf("%d canceled tasks lie in the queue", n)
	}
	release()
	if r, err := f.Call(bg, 1); err != nil || r != 1 {
		t.Error(r, err)
	}
}

// TestBlockedCallers: callers that are blocked get in in their order, give up when their
// context ends, are refused when the pool ends, and are counted.
func TestBlockedCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Queue: 1})
		release := hold(t, p, 1)
		var order []int
		submit := func(ctx context.Context, n int) error { return p.Go(ctx, func() { order = append(order, n) }) }
		if err := submit(bg, 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := submit(ctx, 99); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ended got %v", err)
		}
		var answers []chan error
		for n := 1; n <= 5; n++ {
			answer := make(chan error, 1)
			answers = append(answers, answer)
			go func() { answer <- submit(bg, n) }() // the test waits for the answer
			synctest.Wait()
		}
		release()
		for n, answer := range answers {
			if err := <-answer; err != nil {
				t.Errorf("caller %d: %v", n+1, err)
			}
		}
		if err := p.Drain(bg); err != nil {
			t.Fatal(err)
		}
		if len(order) != 6 {
			t.Fatalf("%v ran", order)
		}
		for n, got := range order {
			if n != got {
				t.Fatalf("tasks ran in the order %v", order)
			}
		}
	})
}

// TestOverflow: each rule with a full queue.
func TestOverflow(t *testing.T) {
	t.Parallel()
	submit := func(p *Pool, n int) (Future[int], error) {
		return Submit(bg, p, func(context.Context) (int, error) { return n, nil })
	}
	t.Run("drop oldest", func(t *testing.T) {
		t.Parallel()
		p := open(t, Config{Max: 1, Queue: 2, Overflow: DropOldest})
		release := hold(t, p, 1)
		var futures []Future[int]
		for n := range 4 {
			future, err := submit(p, n)
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, future)
		}
		release()
		for n, future := range futures {
			r, err := future.Wait(bg)
			if n < 2 {
				wantNeverStarted(t, err, bullpen.ErrOverloaded)
			} else if err != nil || r != n {
				t.Errorf("task %d: %d, %v", n, r, err)
			}
		}
	})
	t.Run("caller runs", func(t *testing.T) {
		t.Parallel()
		p := open(t, Config{Max: 1, Queue: 1, Overflow: CallerRuns})
		release := hold(t, p, 1)
		defer release()
		if _, err := submit(p, 1); err != nil {
			t.Fatal(err)
		}
		future, err := submit(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-future.Done():
		default:
			t.Error("the caller has not run the task")
		}
		bad, err := Submit(bg, p, func(context.Context) (int, error) { panic("in the caller") })
		if err != nil {
			t.Fatal(err)
		}
		_, err = bad.Wait(bg)
		wantOutcome(t, err, bullpen.Panic)
	})
}

// TestPriorities: high before normal before low, and none starves.
func TestPriorities(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1, Queue: 2000})
	release := hold(t, p, 1)
	var order []Priority
	for range 100 {
		for _, pr := range []Priority{Low, Normal, High} {
			if err := p.With(Options{Priority: pr}).Go(bg, func() { order = append(order, pr) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	release()
	if err := p.Drain(bg); err != nil {
		t.Fatal(err)
	}
	sum, first := map[Priority]int{}, map[Priority]int{}
	for i, pr := range order {
		sum[pr] += i
		if _, seen := first[pr]; !seen {
			first[pr] = i
		}
	}
	if len(order) != 300 || sum[High] >= sum[Normal] || sum[Normal] >= sum[Low] {
		t.Errorf("%d tasks ran; sums of ranks %v", len(order), sum)
	}
}

// TestIdle: workers above Min end when they have been idle long enough, those
// within stay, and a resize holds at once.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Min: 2, Max: 8, Idle: 8 * time.Second})
		if n := p.counts().size(); n != 2 {
			t.Fatalf("%d workers at first, want 2", n)
		}
		hold(t, p, 8)()
		synctest.Wait()
		if n := p.counts().size(); n != 8 {
			t.Fatalf("%d workers under load, want 8", n)
		}
		sleep(7 * time.Second)
		if n := p.counts().size(); n != 8 {
			t.Fatalf("%d workers before the idle timeout, want 8", n)
		}
		sleep(4 * time.Second)
		if n := p.counts().size(); n != 2 {
			t.Fatalf("%d workers after the idle timeout, want 2", n)
		}
		if err := p.Resize(3, 4); err != nil {
			t.Fatal(err)
		}
		release := hold(t, p, 4)
		if n := p.counts().size(); n != 4 {
			t.Errorf("%d workers after Resize, want 4", n)
		}
		if err := p.Resize(1, 1); err != nil {
			t.Fatal(err)
		}
		release()
		synctest.Wait()
		if n := p.counts().size(); n != 1 {
			t.Errorf("%d workers after the second Resize, want 1", n)
		}
		if err := p.Resize(2, 1); err == nil {
			t.Error("Resize(2, 1) is accepted")
		}
	})
}

func sleep(d time.Duration) { <-time.After(d) }

// TestCancelRunning: the context ends at once, the outcome comes with the body's
// end, or after the grace.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Grace: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(bg)
		release := make(chan struct{})
		polite, err := Submit(ctx, p, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		cancel()
		_, err = polite.Wait(bg)
		wantOutcome(t, err, bullpen.Canceled)
		if took := time.Since(begun); took > 0 {
			t.Errorf("the outcome came after %v", took)
		}
		ctx, cancel = context.WithCancel(bg)
		stubborn, err := Submit(ctx, p, func(context.Context) (int, error) { <-release; return 0, nil })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun = time.Now()
		cancel()
		_, err = stubborn.Wait(bg)
		wantOutcome(t, err, bullpen.Canceled)
		if took := time.Since(begun); took < 100*time.Millisecond || took > 103*time.Millisecond {
			t.Errorf("the outcome came after %v, want the grace", took)
		}
		close(release)
	})
}
