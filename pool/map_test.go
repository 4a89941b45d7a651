package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// forever is a source without an end.
func forever(read *atomic.Int64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
			read.Add(1)
		}
	}
}

// ways are the three forms of a batch, each as All.
func ways(f *Func[int, int]) map[string]func(context.Context, []int) ([]int, error) {
	collect := func(n int, add func(tell func(int, int, error))) ([]int, error) {
		values, errs := make([]int, n), make(Failures, n)
		failed := false
		add(func(i, value int, err error) {
			values[i], errs[i], failed = value, err, failed || err != nil
		})
		if !failed {
			return values, nil
		}
		return values, errs
	}
	return map[string]func(context.Context, []int) ([]int, error){
		"all": f.All,
		"map": func(ctx context.Context, args []int) ([]int, error) {
			return collect(len(args), func(tell func(int, int, error)) {
				i := 0
				for value, err := range f.Map(ctx, slices.Values(args)) {
					tell(i, value, err)
					i++
				}
			})
		},
		"as completed": func(ctx context.Context, args []int) ([]int, error) {
			return collect(len(args), func(tell func(int, int, error)) {
				for e := range f.AsCompleted(ctx, slices.Values(args)) {
					tell(e.Index, e.Value, e.Err)
				}
			})
		},
	}
}

func TestBatchesInOrder(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 4}) {
		f := NewFunc(on, func(_ context.Context, n int) (int, error) { return 3 * n, nil })
		for way, run := range ways(f) {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				for _, n := range []int{0, 1, 2, 100, 3000} {
					values, err := run(context.Background(), upTo(n))
					if err != nil || len(values) != n {
						t.Fatalf("%d values of %d, %v", len(values), n, err)
					}
					for i, v := range values {
						if v != 3*i {
							t.Fatalf("value %d is %d", i, v)
						}
					}
				}
			})
		}
	}
}

func TestBatchesTellEachError(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 3}) {
		for way, run := range ways(NewFunc(on, trouble)) {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				values, err := run(context.Background(), upTo(300))
				var errs Failures
				if !errors.As(err, &errs) {
					t.Fatal(err)
				}
				wantTrouble(t, values, err, errs, 300)
			})
		}
	}
}

// TestBatchCanceled: what has not started ends with the cause, although all workers
// are busy; nothing starts afterwards.
func TestBatchCanceled(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	release := hold(t, p, 1)
	defer release()
	var ran atomic.Int64
	f := NewFunc(p, func(context.Context, int) (int, error) {
		ran.Add(1)
		return 0, nil
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	go cancel(errSour) // ends at once
	_, err := f.All(ctx, upTo(50))
	var errs Failures
	if !errors.As(err, &errs) || len(errs) != 50 {
		t.Fatal(err)
	}
	for _, err := range errs {
		wantNeverStarted(t, err, errSour)
	}
	n := 0
	var last error
	var read atomic.Int64
	for _, last = range f.Map(ctx, forever(&read)) {
		n++
	}
	if n != 1 || !errors.Is(last, errSour) {
		t.Errorf("Map gave %d items, the last with %v", n, last)
	}
	if ran.Load() != 0 {
		t.Errorf("%d ran", ran.Load())
	}
}

// TestBatchCanceledWhileItRuns: the context of what runs ends too.
func TestBatchCanceledWhileItRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	f := NewFunc(open(t, Config{Max: 2}), func(ctx context.Context, i int) (int, error) {
		if i == 20 {
			cancel(errSour)
		}
		if i >= 20 {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		return i, nil
	})
	values, err := f.All(ctx, upTo(10000))
	var errs Failures
	if !errors.As(err, &errs) || len(values) != 10000 || len(errs) != 10000 {
		t.Fatal(len(values), err)
	}
	wantOutcome(t, errs[20], bullpen.Canceled)
	wantNeverStarted(t, errs[9999], errSour)
}

func TestMapLeftEarly(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 4}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now, read atomic.Int64
			f := NewFunc(on, func(_ context.Context, n int) (int, error) {
				now.Add(1)
				defer now.Add(-1)
				return n, nil
			})
			want := 0
			for v, err := range f.Map(context.Background(), forever(&read)) {
				if err != nil || v != want {
					t.Fatal(v, err)
				}
				if want++; want == 2000 {
					break
				}
			}
			if now.Load() != 0 {
				t.Errorf("%d bodies run on", now.Load())
			}
			if ahead := read.Load() - 2000; ahead > int64(mostOfMap*(2*on.at().pool.most()+1)) {
				t.Errorf("it has read %d items ahead", ahead)
			}
			for e := range f.AsCompleted(context.Background(), forever(&read)) {
				if e.Err != nil || e.Arg != e.Index || e.Value != e.Arg {
					t.Fatal(e)
				}
				if e.Index > 100 {
					break
				}
			}
		})
	}
}

// TestMapOfPanickingSource: the panic comes out of the loop, after what runs has
// ended.
func TestMapOfPanickingSource(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	f := NewFunc(open(t, Config{Max: 4}), func(ctx context.Context, n int) (int, error) {
		now.Add(1)
		defer now.Add(-1)
		runtime.Gosched()
		return n, nil
	})
	defer func() {
		if v := recover(); v != errSour || now.Load() != 0 { //nolint:errorlint // it is that value
			t.Errorf("panic %v, %d bodies run on", v, now.Load())
		}
	}()
	for range f.Map(context.Background(), func(yield func(int) bool) {
		for i := range 50 {
			if !yield(i) {
				return
			}
		}
		panic(errSour)
	}) {
	}
	t.Error("the panic of the source is lost")
}

// TestLongItemHoldsUpNobody: items behind a long one go to other workers, even
// where the first can only end when the last has run.
func TestLongItemHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"all", "map", "as completed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			last := make(chan struct{})
			n := 64
			long := atomic.Bool{}
			f := NewFunc(open(t, Config{Max: 2}), func(_ context.Context, i int) (int, error) {
				switch {
				case !long.Load():
				case i == 0:
					<-last
				case i == n-1:
					close(last)
				}
				return i, nil
			})
			f.pace.mean.Store(10) // as after many short items
			long.Store(true)
			if _, err := ways(f)[way](context.Background(), upTo(n)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBatchNested: a task that waits for a batch at its own pool does not hang.
func TestBatchNested(t *testing.T) {
	t.Parallel()
	for name, on := range groupTargets(t, Config{Max: 1, Queue: 2}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := NewFunc(on, func(_ context.Context, n int) (int, error) { return n, nil })
			for way := range ways(inner) {
				outer := NewFunc(on, func(ctx context.Context, n int) (int, error) {
					values, err := ways(inner)[way](ctx, upTo(n))
					return len(values), err
				})
				values, err := outer.All(context.Background(), []int{1, 20, 300})
				if err != nil || !slices.Equal(values, []int{1, 20, 300}) {
					t.Errorf("%s: %v, %v", way, values, err)
				}
			}
		})
	}
}

// TestBatchEndings: whatever ends the pool in whatever moment, each item has one
// outcome.
func TestBatchEndings(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 2))
	for round := range 80 {
		c := Config{Max: 1 + r.IntN(4), Queue: 1 + r.IntN(10), Grace: time.Millisecond}
		c.Overflow, c.Help = Overflow(r.IntN(3)), r.IntN(4) == 0
		end, n, way := r.IntN(5), 1+r.IntN(300), []string{"all", "map", "as completed"}[r.IntN(3)]
		if end == 3 {
			c.CloseGrace = time.Millisecond
		}
		t.Run(fmt.Sprint(round, " ", way, " ", end), func(t *testing.T) {
			t.Parallel()
			endBatch(t, c, end, n, way)
		})
	}
}

func endBatch(t *testing.T, c Config, end, n int, way string) {
	t.Helper()
	p := open(t, c)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stuck, begin := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ran := make([]atomic.Int32, n)
	f := NewFunc(p, func(ctx context.Context, i int) (int, error) {
		ran[i].Add(1)
		if i == n/3 {
			once.Do(func() { close(begin) })
			if end == 3 && !c.Help {
				<-stuck // ignores its context
			}
		}
		if c.Help && i%5 == 3 {
			return 0, errSour // Goexit would end this goroutine
		}
		return trouble(ctx, i)
	})
	var ender sync.WaitGroup
	ender.Go(func() {
		<-begin
		finish(t, p, cancel, end)
	})
	values, err := ways(f)[way](ctx, upTo(n))
	once.Do(func() { close(begin) })
	var errs Failures
	if !errors.As(err, &errs) {
		errs = make(Failures, n)
	}
	for i, err := range errs {
		_, started := bullpen.OutcomeOf(err)
		if err == nil && ran[i].Load() == 0 && ctx.Err() != nil && way != "all" {
			continue // it was not read from the source
		}
		if (ran[i].Load() == 1) != started && !errors.Is(err, errForsaken) { // such a one may be just about to run
			t.Errorf("item %d ran %d times and ended with %v", i, ran[i].Load(), err)
		}
		if err == nil && (values[i] != i || i%5 != 0) {
			t.Errorf("item %d has the value %d", i, values[i])
		}
	}
	close(stuck)
	ender.Wait()
}
