package pool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

// interpreter is a state that says when it is used by two at once.
type interpreter struct {
	id     int64
	users  atomic.Int64
	log    *slog.Logger
	closed atomic.Bool
}

type requestKey struct{}

// interpreters makes states of up to three, and counts them.
func interpreters(t *testing.T, p *Pool, made, closed *atomic.Int64) *States[*interpreter] {
	t.Helper()
	states, err := NewStates(p, StateConfig[*interpreter]{
		Name: "interpreters", Limit: 3,
		New: func(_ context.Context, log *slog.Logger) (*interpreter, error) {
			return &interpreter{id: made.Add(1), log: log}, nil
		},
		Close: func(in *interpreter) {
			if in.closed.Swap(true) {
				t.Error("an instance is closed twice")
			}
			closed.Add(1)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// TestStates: instances are made lazily up to the limit, serve one task at a time,
// are used last in first out, and are closed with the pool.
func TestStates(t *testing.T) {
	t.Parallel()
	var made, closed atomic.Int64
	p := open(t, Config{Max: 8})
	states := interpreters(t, p, &made, &closed)
	eval := NewFuncWithState(states, func(_ context.Context, in *interpreter, n int) (int, error) {
		if in.users.Add(1) != 1 || in.closed.Load() {
			t.Error("an instance is used by two, or after its end")
		}
		defer in.users.Add(-1)
		<-time.After(time.Duration(n%3) * 100 * time.Microsecond)
		if n%50 == 49 {
			panic("spoiled")
		}
		return n * 2, nil
	})
	if made.Load() != 0 {
		t.Errorf("%d instances are made before they are needed", made.Load())
	}
	for i := range 5 {
		if r, err := eval.Call(bg, i); err != nil || r != 2*i {
			t.Fatal(r, err)
		}
	}
	if made.Load() != 1 {
		t.Errorf("%d instances for tasks one after the other, want 1", made.Load())
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for n := range 50 {
				r, err := eval.Call(bg, n)
				if n == 49 {
					var te *bullpen.TaskError
					if !errors.As(err, &te) || te.Outcome != bullpen.Panic {
						t.Errorf("the panic gave %v", err)
					}
				} else if err != nil || r != 2*n {
					t.Error(r, err)
				}
			}
		})
	}
	all.Wait()
	if s := states.Stats(); s.Idle > 3 || s.InUse != 0 || s.Idle+int(closed.Load()) != int(made.Load()) {
		t.Errorf("%+v with %d made and %d closed", s, made.Load(), closed.Load())
	}
	if err := p.Drain(bg); err != nil {
		t.Fatal(err)
	}
	if closed.Load() != made.Load() {
		t.Errorf("%d of %d instances are closed after the pool has ended", closed.Load(), made.Load())
	}
}

// TestStatesKeepTheirPlaces: a failure at any step of a checkout leaves the
// capacity whole.
func TestStatesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Max: 4})
	var step atomic.Int64
	fails := func(n int64) error {
		switch step.Load() {
		case n:
			return errors.New("not now")
		case -n:
			panic("not now")
		}
		return nil
	}
	states, err := NewStates(p, StateConfig[int]{
		Name: "fragile", Limit: 1, Tasks: 2,
		New:      func(context.Context, *slog.Logger) (int, error) { return 7, fails(1) },
		Checkout: func(context.Context, int) error { return fails(2) },
		Return:   func(int) error { return fails(3) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFuncWithState(states, func(_ context.Context, in, n int) (int, error) { return in * n, fails(4) })
	for _, s := range []int64{1, -1, 2, -2, 3, -3, 4, -4} {
		step.Store(s)
		var failed error
		for range 3 { // the first one may find an instance of before
			_, err := f.Call(bg, 6)
			failed = errors.Join(failed, err)
		}
		if (failed == nil) != (s == 3) {
			t.Errorf("step %d: %v", s, failed)
		}
		step.Store(0)
		for range 3 {
			if r, err := f.Call(bg, 6); err != nil || r != 42 {
				t.Fatalf("after a failure at step %d: %d, %v", s, r, err)
			}
		}
		eventually(t, "the instance comes back", func() bool { return states.Stats().InUse == 0 })
	}
}

// TestStatesLog: the logger carries the ids of the task, and none in between.
func TestStatesLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	p := open(t, Config{Max: 1})
	var own *slog.Logger
	states, err := NewStates(p, StateConfig[*interpreter]{
		Name: "logged", Logger: logger,
		New: func(_ context.Context, log *slog.Logger) (*interpreter, error) {
			own = log.With("instance", 1)
			own.Info("made")
			return &interpreter{log: own}, nil
		},
		Attrs: func(ctx context.Context) []slog.Attr {
			return []slog.Attr{slog.Any("request", ctx.Value(requestKey{}))}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFuncWithState(states, func(_ context.Context, in *interpreter, text string) (int, error) {
		in.log.Info("serving", "text", text)
		return 0, nil
	})
	for _, id := range []string{"r1", "r2"} {
		if _, err := f.Call(context.WithValue(bg, requestKey{}, id), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Drain(bg); err != nil {
		t.Fatal(err)
	}
	own.Info("between")
	for i, want := range []string{"msg=made instance=1 request=r1", "msg=serving instance=1 text=x request=r1", "msg=serving instance=1 text=x request=r2", "msg=between instance=1\n"} {
		lines := strings.SplitAfter(out.String(), "\n")
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d of the log does not have %q:\n%s", i, want, out.String())
		}
	}
}

// TestStatesEnd: instances end when they are idle too long, and their number can be
// set by the environment.
func TestStatesEnd(t *testing.T) {
	t.Setenv("BULLPEN_TEST_INSTANCES", "2")
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 8})
		var closed atomic.Int64
		states, err := NewStates(p, StateConfig[int]{
			Name: "s", Limit: 5, LimitEnv: "BULLPEN_TEST_INSTANCES", Idle: time.Minute,
			New:   func(context.Context, *slog.Logger) (int, error) { return 1, nil },
			Close: func(int) { closed.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var running, most atomic.Int64
		f := NewFuncWithState(states, func(context.Context, int, int) (int, error) {
			n := running.Add(1)
			most.Store(max(most.Load(), n))
			sleep(time.Millisecond)
			running.Add(-1)
			return 0, nil
		})
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() { _, _ = f.Call(bg, 0) })
		}
		all.Wait()
		if most.Load() != 2 {
			t.Errorf("%d tasks at once, want 2", most.Load())
		}
		sleep(2 * time.Minute)
		if closed.Load() != 2 {
			t.Errorf("%d instances were closed after the idle timeout, want 2", closed.Load())
		}
	})
	t.Setenv("BULLPEN_TEST_INSTANCES", "many")
	p := open(t, Config{})
	_, err := NewStates(p, StateConfig[int]{LimitEnv: "BULLPEN_TEST_INSTANCES", Tasks: -1})
	for _, want := range []string{"New is nil", "Tasks is negative", `BULLPEN_TEST_INSTANCES is "many"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
