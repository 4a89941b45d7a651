package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

func openLane(t testing.TB, p *Pool, c LaneConfig) *Lane {
	t.Helper()
	if c.Name == "" {
		c.Name = "lane"
	}
	l, err := p.Lane(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ran keeps the most bodies that ran at a time.
type ran struct{ now, most, all atomic.Int64 }

func (r *ran) body() (end func()) {
	r.all.Add(1)
	now := r.now.Add(1)
	for {
		most := r.most.Load()
		if now <= most || r.most.CompareAndSwap(most, now) {
			return func() { r.now.Add(-1) }
		}
	}
}

func TestLaneFaults(t *testing.T) {
	t.Parallel()
	p := open(t, Config{})
	openLane(t, p, LaneConfig{Name: "taken"})
	for _, c := range []struct {
		config LaneConfig
		want   []string
	}{
		{LaneConfig{}, []string{"Name is empty"}},
		{LaneConfig{Name: "taken"}, []string{`lane "taken"`, "use another name"}},
		{LaneConfig{Name: "a", Limit: -1, Queue: -2, Overflow: 9, Rate: -3, Burst: -4}, []string{
			"Limit is -1", "Queue is -2", "Overflow is 9", "Rate is -3", "Burst is -4",
		}},
		{LaneConfig{Name: "a", Overflow: CallerRuns}, []string{"would escape the limit"}},
		{LaneConfig{Name: "a", Burst: 2}, []string{"without a Rate"}},
	} {
		l, err := p.Lane(c.config)
		if err == nil || l != nil {
			t.Errorf("%+v: no error", c.config)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %q does not say %q", c.config, err, want)
			}
		}
	}
	l := openLane(t, p, LaneConfig{Name: "a"})
	if err := l.SetLimit(-1); err == nil || !strings.Contains(err.Error(), "limit is -1") {
		t.Errorf("SetLimit(-1): %v", err)
	}
	if err := l.Go(bg, nil); !errors.Is(err, errNil) {
		t.Errorf("Go(nil): %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Lane(LaneConfig{Name: "late"}); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("a lane of a closed pool: %v", err)
	}
	if err := l.Go(bg, func() {}); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("Go in a lane of a closed pool: %v", err)
	}
}

// TestLaneLimit: whatever bodies do, no more than the limit run in a lane, all are
// run, and the other lane and the pool do not mind.
func TestLaneLimit(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 6, Queue: 64})
	limits := []int{1, 3, 0}
	rans := make([]ran, len(limits))
	var all sync.WaitGroup
	const each = 600
	for i, limit := range limits {
		l := openLane(t, p, LaneConfig{Name: strings.Repeat("x", i+1), Limit: limit, Queue: 8 << i})
		f := NewFunc(l, func(_ context.Context, n int) (int, error) {
			defer rans[i].body()()
			switch n % 16 {
			case 1:
				panic("now")
			case 2:
				runtime.Goexit()
			case 3:
				runtime.Gosched()
			}
			return n, nil
		})
		for range 4 {
			all.Go(func() {
				for n := range each / 2 {
					if r, err := f.Call(bg, n); err == nil && r != n {
						t.Errorf("task %d gave %d", n, r)
					}
				}
			})
			all.Go(func() {
				for range each / 2 {
					all.Add(1)
					if err := l.Go(bg, func() { defer all.Done(); defer rans[i].body()() }); err != nil {
						t.Error(err)
						all.Done()
					}
					_ = p.Go(bg, func() {})
				}
			})
		}
	}
	all.Wait()
	if err := p.Drain(bg); err != nil {
		t.Error(err)
	}
	for i, limit := range limits {
		if most := rans[i].most.Load(); limit > 0 && most > int64(limit) {
			t.Errorf("%d bodies ran at a time, the limit is %d", most, limit)
		}
		if n := rans[i].all.Load(); n != 4*each {
			t.Errorf("limit %d: %d bodies ran, want %d", limit, n, 4*each)
		}
	}
	for _, l := range p.lanes {
		if s := l.Stats(); s.Running != 0 || s.Queued != 0 || s.Nesting != 0 || s.Blocked != 0 || s.Started != 4*each {
			t.Errorf("at the end: %+v", s)
		}
	}
}

// TestLaneBound: exactly Queue tasks wait, whoever brings them, and canceled ones
// give their places back.
func TestLaneBound(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 2})
	l := openLane(t, p, LaneConfig{Limit: 1, Queue: 50, Overflow: Reject})
	started, end := make(chan struct{}), make(chan struct{})
	if err := l.Go(bg, func() { close(started); <-end }); err != nil {
		t.Fatal(err)
	}
	<-started
	for range 3 {
		var mu sync.Mutex
		var futures []Future[int]
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 40 {
					f, err := Submit(bg, l, func(context.Context) (int, error) { return 1, nil })
					switch {
					case err == nil:
						mu.Lock()
						futures = append(futures, f)
						mu.Unlock()
					case !errors.Is(err, bullpen.ErrOverloaded):
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if len(futures) != 50 {
			t.Fatalf("%d tasks wait, want 50", len(futures))
		}
		if s := l.Stats(); s.Queued != 50 || s.Running != 1 || s.Queue != 50 || s.Limit != 1 || s.Name != l.Name() {
			t.Errorf("%+v", s)
		}
		for _, f := range futures {
			f.Cancel(nil)
			_, err := f.Wait(bg)
			wantNeverStarted(t, err, context.Canceled)
		}
	}
	if s := l.Stats(); s.Queued != 0 || s.Refused != 3*110 || s.Started != 1 {
		t.Errorf("%+v", s)
	}
	close(end)
}

// TestLanesTakeTurns: with one worker, each of two lanes gets every fourth turn at
// least, whatever lies in the other and in the pool's queue.
func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 1})
	a, b := openLane(t, p, LaneConfig{Name: "a"}), openLane(t, p, LaneConfig{Name: "b"})
	release := hold(t, p, 1)
	var order []string // written by the one worker
	for range 300 {
		if err := a.Go(bg, func() { order = append(order, "a") }); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		for name, on := range map[string]interface {
			Go(context.Context, func()) error
		}{"b": b, "own": p.With(Options{Name: "own"})} {
			if err := on.Go(bg, func() { order = append(order, name) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	release()
	if err := p.Drain(bg); err != nil {
		t.Error(err)
	}
	if len(order) != 340 {
		t.Fatalf("%d tasks ran, want 340", len(order))
	}
	for name, most := range map[string]int{"b": 82, "own": 82} {
		last := len(order) - 1 - slices.Index(reversed(order), name)
		if last > most {
			t.Errorf("the last of 20 tasks of %q ran as number %d, want at most %d", name, last, most)
		}
	}
	if first := slices.Index(order, "a"); first > 4 {
		t.Errorf("lane a ran first as number %d", first)
	}
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// TestSetLimit: a new limit holds from the next start on.
func TestSetLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 8})
		l := openLane(t, p, LaneConfig{Limit: 1})
		next := make(chan struct{})
		for range 100 {
			if err := l.Go(bg, func() { <-next }); err != nil {
				t.Fatal(err)
			}
		}
		for _, limit := range []int{1, 5, 2, 0, 3, 8} {
			if err := l.SetLimit(limit); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			before := l.Stats()
			want := limit
			if limit == 0 {
				want = 8
			}
			if before.Running < want {
				t.Errorf("limit %d: %d bodies run", limit, before.Running)
			}
			for l.Stats().Running > want {
				next <- struct{}{}
				synctest.Wait()
			}
			next <- struct{}{}
			synctest.Wait()
			if s := l.Stats(); s.Running != want || s.Limit != limit {
				t.Errorf("limit %d: %+v", limit, s)
			}
		}
		close(next)
	})
}

// TestLaneOverrun: who waits is answered at the deadline and the pool has another
// worker at once, but the lane waits for the body.
func TestLaneOverrun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 1, Timeout: time.Hour})
		l := openLane(t, p, LaneConfig{Limit: 1, Timeout: time.Second})
		end := make(chan struct{})
		stuck := NewFunc(l, func(context.Context, int) (int, error) { <-end; return 1, nil })
		start := time.Now()
		_, err := stuck.Call(bg, 0)
		_ = wantTaskError(t, err, bullpen.Timeout)
		if d := time.Since(start); d < time.Second || d > time.Second+5*time.Millisecond {
			t.Errorf("answered after %v", d)
		}
		next, err := Submit(bg, l, func(context.Context) (int, error) { return 2, nil })
		if err != nil {
			t.Fatal(err)
		}
		if r, err := NewFunc(p, fact).Call(bg, 3); err != nil || r != 6 {
			t.Errorf("the pool: %d, %v", r, err)
		}
		synctest.Wait()
		if s := l.Stats(); s.Running != 1 || s.Queued != 1 {
			t.Errorf("while the body is stuck: %+v", s)
		}
		close(end)
		if r, err := next.Wait(bg); err != nil || r != 2 {
			t.Errorf("the next one: %d, %v", r, err)
		}
		synctest.Wait()
		if s := l.Stats(); s.Running != 0 || s.Started != 2 {
			t.Errorf("after it: %+v", s)
		}
	})
}

// TestLaneTimeouts: the task's goes over the lane's, and that over the pool's.
func TestLaneTimeouts(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Timeout: time.Hour})
	for _, c := range []struct{ lane, task, want time.Duration }{
		{0, 0, time.Hour}, {-1, 0, 0}, {time.Minute, 0, time.Minute}, {time.Minute, time.Second, time.Second},
		{time.Minute, -1, 0}, {-1, time.Second, time.Second},
	} {
		l := openLane(t, p, LaneConfig{Name: c.lane.String() + c.task.String(), Timeout: c.lane})
		if at := l.With(Options{Timeout: c.task}).at(); at.timeout != c.want {
			t.Errorf("%+v: the timeout is %v", c, at.timeout)
		}
	}
}
