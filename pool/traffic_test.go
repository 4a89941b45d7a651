package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestNestedInLane: a task of a lane of one that calls into its own lane, directly
// or through others, gets its answer, and what it lent is given back.
func TestNestedInLane(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	l := openLane(t, p, LaneConfig{Limit: 1})
	other := openLane(t, p, LaneConfig{Name: "other", Limit: 1})
	var inLane, inOther, inPool *Func[int, int]
	step := func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			return 0, nil
		}
		f := []*Func[int, int]{inLane, inOther, inPool}[n%3]
		sum, err := f.Call(ctx, n-1)
		return sum + n, err
	}
	inLane, inOther, inPool = NewFunc(l, step), NewFunc(other, step), NewFunc(p, step)
	for range 50 {
		for n := range 8 {
			got, err := inLane.Call(bg, n)
			if want := n * (n + 1) / 2; err != nil || got != want {
				t.Fatalf("depth %d: %d, %v; want %d", n, got, err, want)
			}
		}
	}
	direct := Submit[int]
	waited, err := direct(bg, l, func(ctx context.Context) (int, error) {
		f, err := Submit(ctx, l, func(context.Context) (int, error) { return 7, nil })
		if err != nil {
			return 0, err
		}
		<-f.Done() // without a context
		return f.Take(bg)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := waited.Wait(bg); err != nil || r != 7 {
		t.Errorf("waiting without a context: %d, %v", r, err)
	}
	eventually(t, "all is given back", func() bool {
		a, b := l.Stats(), other.Stats()
		return a.Running+a.Nesting+b.Running+b.Nesting == 0
	})
}

// TestSubmitFromLaneKeepsLimit: a task that hands work to others and does not wait
// for it leaves its lane's limit as it is.
func TestSubmitFromLaneKeepsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 4})
		l := openLane(t, p, LaneConfig{Limit: 1})
		end := make(chan struct{})
		for range 2 {
			if _, err := Submit(bg, l, func(ctx context.Context) (int, error) {
				if err := p.Go(ctx, func() {}); err != nil {
					t.Error(err)
				}
				<-end
				return 0, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s := l.Stats(); s.Running != 1 || s.Queued != 1 {
			t.Errorf("%+v", s)
		}
		close(end)
		synctest.Wait() // the second one hands over its work before the pool is closed
	})
}

// TestEndingsOfLanes: Drain finishes what waits behind the limit and the rate of
// lanes and for its time; Stop and Close fail it at once.
func TestEndingsOfLanes(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Pool) error{
		"drain": func(p *Pool) error { return p.Drain(bg) },
		"stop":  func(p *Pool) error { return p.Stop(bg) },
		"close": (*Pool).Close,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { endWithLanes(t, name == "drain", end) })
		})
	}
}

func endWithLanes(t *testing.T, finishes bool, end func(*Pool) error) {
	t.Helper()
	p := open(t, Config{Max: 4, Queue: 3})
	limited := openLane(t, p, LaneConfig{Name: "limited", Limit: 1, Queue: 5})
	rated := openLane(t, p, LaneConfig{Name: "rated", Rate: 0.5})
	body := func(ctx context.Context) (int, error) {
		select {
		case <-time.After(3 * time.Second):
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	var futures []Future[int]
	for _, on := range []Target{
		limited, rated, limited, limited, rated, rated,
		p.With(Options{Delay: time.Minute}), limited.With(Options{Delay: time.Hour}),
	} {
		f, err := Submit(bg, on, body)
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	synctest.Wait()
	if n := p.waiting(); n != 6 {
		t.Errorf("%d tasks wait, want 6", n)
	}
	start := time.Now()
	if err := end(p); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	for i, f := range futures {
		r, err := f.Wait(bg)
		switch {
		case finishes:
			if r != 1 || err != nil {
				t.Errorf("task %d: %d, %v", i, r, err)
			}
		case i < 2:
			if _, started := bullpen.OutcomeOf(err); !started {
				t.Errorf("task %d ran: %v", i, err)
			}
		default:
			wantNeverStarted(t, err, bullpen.ErrClosed)
		}
	}
	if want := time.Hour + 3*time.Second; finishes && took != want {
		t.Errorf("the drain took %v, want %v", took, want)
	}
	if !finishes && took > 3*time.Second {
		t.Errorf("the end took %v", took)
	}
	if s := limited.Stats(); s.Running+s.Queued+s.Delayed != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// TestCanceledLastOnes: a drain ends with the last task that waits, also when that
// is canceled and there is no worker any more.
func TestCanceledLastOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 2})
		rated := openLane(t, p, LaneConfig{Name: "rated", Rate: 1.0 / 3600})
		var futures []Future[int]
		for _, on := range []Target{rated, rated, p.With(Options{Delay: time.Hour})} {
			f, err := Submit(bg, on, func(context.Context) (int, error) { return 1, nil })
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, f)
		}
		drained := make(chan error, 1)
		go func() { drained <- p.Drain(bg) }()
		<-time.After(time.Minute)
		for _, f := range futures[1:] {
			select {
			case err := <-drained:
				t.Fatalf("drained too early: %v", err)
			default:
			}
			f.Cancel(nil)
			synctest.Wait()
		}
		select {
		case err := <-drained:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the drain goes on with nothing to wait for")
		}
	})
}

// lanesSoak has what TestLanesSoak counts.
type lanesSoak struct {
	accepted, outcomes atomic.Int64
	help               bool
	ran                [3]ran
}

// TestLanesSoak does everything at once in lanes: cancels, panics, Goexit, overruns,
// delays, new limits, at last an ending. Each accepted task has one outcome.
func TestLanesSoak(t *testing.T) {
	t.Parallel()
	s := seed(t)
	for round := range 12 {
		r := rand.New(rand.NewPCG(s, uint64(round)))
		k := &lanesSoak{help: r.IntN(3) == 0}
		p := open(t, Config{Max: 1 + r.IntN(4), Queue: 1 + r.IntN(20), Grace: time.Millisecond, CloseGrace: time.Second, Help: k.help})
		var fns []*Func[int, int]
		var lanes []*Lane
		for i, limit := range []int{1, 2, 0} {
			c := LaneConfig{Name: string(rune('a' + i)), Limit: limit, Queue: 1 + r.IntN(10), Overflow: Overflow(r.IntN(3))}
			if r.IntN(3) == 0 {
				c.Rate, c.Burst = 5000, 1+r.IntN(3)
			}
			l := openLane(t, p, c)
			lanes = append(lanes, l)
			fn := func(ctx context.Context, n int) (int, error) { return k.body(ctx, i, n) }
			fns = append(fns, NewFunc(l, fn),
				NewFunc(l.With(Options{Timeout: 3 * time.Millisecond, Priority: Priority(r.IntN(3))}), fn),
				NewFunc(l.With(Options{Delay: time.Duration(r.IntN(3000)) * time.Microsecond}), fn))
		}
		fns = append(fns, NewFunc(p.With(Options{Delay: time.Millisecond}), fns[0].fn), NewFunc(p, fns[0].fn))
		k.round(t, r, p, lanes, fns)
	}
}

func (k *lanesSoak) body(ctx context.Context, i, n int) (int, error) {
	defer k.ran[i].body()()
	switch n % 31 {
	case 1:
		panic(n)
	case 2:
		if !k.help { // it would end the caller who helps
			runtime.Goexit()
		}
	case 3:
		return 0, errors.New("no")
	case 4:
		<-time.After(5 * time.Millisecond) // overruns where there is a timeout
	case 5, 6:
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return n, nil
}

func (k *lanesSoak) round(t *testing.T, r *rand.Rand, p *Pool, lanes []*Lane, fns []*Func[int, int]) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		own := rand.New(rand.NewPCG(r.Uint64(), 1))
		all.Go(func() {
			for n := range 150 {
				k.one(t, own, fns[own.IntN(len(fns))], n)
				if own.IntN(20) == 0 {
					if err := lanes[2].SetLimit(own.IntN(4)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	ended := make(chan error, 1)
	how, after := r.IntN(3), time.Duration(r.IntN(60))*time.Millisecond
	go func() {
		<-time.After(after)
		switch how {
		case 0:
			ended <- p.Drain(bg)
		case 1:
			ended <- p.Stop(bg)
		default:
			ended <- p.Close()
		}
	}()
	all.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if a, o := k.accepted.Load(), k.outcomes.Load(); a != o {
		t.Errorf("%d tasks were accepted, %d have an outcome", a, o)
	}
	if most := k.ran[1].most.Load(); most > 2 {
		t.Errorf("%d bodies ran at a time, the limit is 2", most)
	}
	eventually(t, "all bodies have returned", func() bool {
		for _, l := range lanes {
			if s := l.Stats(); s.Running+s.Queued+s.Delayed+s.Nesting+s.Blocked != 0 {
				return false
			}
		}
		return true
	})
}

func (k *lanesSoak) one(t *testing.T, r *rand.Rand, f *Func[int, int], n int) {
	t.Helper()
	ctx, cancel := bg, context.CancelFunc(func() {})
	if r.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(bg, time.Duration(r.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	future, err := f.Submit(ctx, n)
	if err != nil {
		return
	}
	k.accepted.Add(1)
	if r.IntN(4) == 0 {
		future.Cancel(nil)
	}
	v, err := future.Take(bg)
	if errors.Is(err, ErrTaken) || err == nil && v != n {
		t.Errorf("task %d: %d, %v", n, v, err)
	}
	k.outcomes.Add(1)
}
