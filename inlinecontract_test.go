package bullpen_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

func TestInlineKeepsTheContract(t *testing.T) {
	t.Parallel()
	executortest.Run(t, executortest.Factory{Inline: true, New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return direct(t, bullpen.InlineConfig{Handlers: executortest.Handlers(), CloseGrace: o.Grace})
	}})
}

func direct(t testing.TB, c bullpen.InlineConfig) *bullpen.Inline {
	t.Helper()
	e, err := bullpen.NewInline(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// one makes an executor of one handler, whose name is empty.
func one(t testing.TB, h bullpen.Handler) *bullpen.Inline {
	t.Helper()
	return direct(t, bullpen.InlineConfig{Handlers: map[string]bullpen.Handler{"": h}})
}

func echo(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil }

// TestInlineContext looks at what a handler sees of its context, and that one that keeps it
// learns nothing of later tasks.
func TestInlineContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	var kept context.Context
	e := one(t, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.ID == "keep" {
			kept = ctx
		}
		value, _ := ctx.Value(key{}).(string)
		if t.ID == "derive" {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			value, _ = derived.Value(key{}).(string)
		}
		return []byte(value), nil
	})
	with := func(value string) context.Context { return context.WithValue(t.Context(), key{}, value) }
	a, b := with("a"), with("b")
	for _, c := range []struct {
		ctx      context.Context //nolint:containedctx // of one call
		id, want string
	}{{a, "keep", "a"}, {b, "", "b"}, {b, "derive", "b"}, {b, "derive", "b"}, {a, "", "a"}, {uncomparable{b, nil}, "", "b"}, {uncomparable{b, nil}, "", "b"}} {
		r, err := e.Execute(c.ctx, bullpen.Task{ID: c.id})
		if err != nil || string(r.Payload) != c.want {
			t.Errorf("the handler read %q, %v, want %q", r.Payload, err, c.want)
		}
	}
	if v := kept.Value(key{}); v != "a" || kept.Err() != nil {
		t.Errorf("a context that was kept has %v, %v", v, kept.Err())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// uncomparable is a context that must not be compared.
type uncomparable struct {
	context.Context //nolint:containedctx // it is one

	_ func()
}

func TestInlineDeadline(t *testing.T) {
	t.Parallel()
	far := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), far)
	defer cancel()
	e := direct(t, bullpen.InlineConfig{Limits: bullpen.Limits{Timeout: 2 * time.Hour}, Handlers: map[string]bullpen.Handler{
		"deadline": func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			at, ok := ctx.Deadline()
			if earlier := ok && at.Before(far); earlier != (t.Limits.Timeout == time.Minute) {
				return nil, fmt.Errorf("the deadline is %v", at)
			}
			return nil, nil
		},
		"polls": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			for ctx.Err() == nil {
				runtime.Gosched()
			}
			return nil, ctx.Err()
		},
		"waits": func(ctx context.Context, _ bullpen.Task) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() },
		"late":  func(ctx context.Context, _ bullpen.Task) ([]byte, error) { <-ctx.Done(); return []byte("late"), nil },
	}})
	for _, limit := range []time.Duration{0, time.Minute, 3 * time.Hour} {
		if _, err := e.Execute(ctx, bullpen.Task{Name: "deadline", Limits: bullpen.Limits{Timeout: limit}}); err != nil {
			t.Errorf("with a limit of %v: %v", limit, err)
		}
	}
	for _, name := range []string{"polls", "waits", "late"} {
		r, err := e.Execute(t.Context(), bullpen.Task{Name: name, Limits: bullpen.Limits{Timeout: time.Millisecond}})
		if o, started := bullpen.OutcomeOf(err); o != bullpen.Timeout || !started || r.Payload != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a handler that %s: %q, %v, want the outcome timeout", name, r.Payload, err)
		}
	}
}

// TestInlineCloseReachesHandlers wants contexts that handlers made of theirs to end too.
func TestInlineCloseReachesHandlers(t *testing.T) {
	t.Parallel()
	runs := make(chan struct{}, 3)
	e := one(t, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.ID == "polls" {
			runs <- struct{}{}
			for ctx.Err() == nil {
				runtime.Gosched()
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		if t.ID == "derives" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Hour)
			defer cancel()
		}
		done := ctx.Done()
		runs <- struct{}{}
		<-done
		return nil, context.Cause(ctx)
	})
	ends := make(chan error, 3)
	for _, id := range []string{"polls", "waits", "derives"} {
		go func() { // ends when Close cancels the task; awaited below
			_, err := e.Execute(t.Context(), bullpen.Task{ID: id})
			ends <- err
		}()
		<-runs
	}
	if s := e.Stats(); s.Running != 3 || s.State != bullpen.InlineOpen {
		t.Errorf("the statistics are %+v", s)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for range 3 {
		err := <-ends
		if o, _ := bullpen.OutcomeOf(err); o != bullpen.Canceled || !errors.Is(err, bullpen.ErrClosed) {
			t.Errorf("a task ended with %v, want it canceled by Close", err)
		}
	}
}

func TestInlineGoexit(t *testing.T) {
	t.Parallel()
	e := one(t, func(context.Context, bullpen.Task) ([]byte, error) { runtime.Goexit(); return nil, nil })
	var outcome error
	returned, ended := false, make(chan struct{})
	go func() { // ends by Goexit
		defer close(ended)
		_ = e.Submit(t.Context(), bullpen.Task{}, func(_ bullpen.Result, err error) { outcome = err })
		returned = true
	}()
	<-ended
	if o, _ := bullpen.OutcomeOf(outcome); o != bullpen.Panic || returned || !strings.Contains(outcome.Error(), "Goexit") {
		t.Errorf("the task ended with %v; Submit returned is %v", outcome, returned)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Errorf("the task is still counted: %v", err)
	}
}

func TestInlineStatsAndEvents(t *testing.T) {
	t.Parallel()
	e := direct(t, bullpen.InlineConfig{Handlers: map[string]bullpen.Handler{"echo": echo, "throw": func(context.Context, bullpen.Task) ([]byte, error) { panic(errWhy) }}})
	feed := e.Events(0)
	for _, k := range []bullpen.Task{{Name: "echo"}, {Name: "throw", ID: "1"}, {Name: "nobody"}} {
		_, err := e.Execute(t.Context(), k)
		var te *bullpen.TaskError
		if k.Name == "throw" && (!errors.As(err, &te) || !errors.Is(err, errWhy) || !strings.Contains(te.Stack, "inlinecontract_test.go")) {
			t.Errorf("the panic is %v, with the stack %s", err, te.Stack)
		}
	}
	if err := e.Submit(t.Context(), bullpen.Task{Name: "echo"}, nil); err == nil {
		t.Error("Submit accepts a task without done")
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	s := e.Stats()
	if s.Accepted != 2 || s.Refused != 2 || s.Outcomes[bullpen.OK] != 1 || s.Outcomes[bullpen.Panic] != 1 || s.RunTime.Count != 2 || s.Running != 0 || s.State != bullpen.InlineClosed {
		t.Errorf("the statistics are %+v", s)
	}
	var all []string
	for event := range feed.C {
		all = append(all, fmt.Sprint(event.Task, event.ID, " ", event.State, " ", event.Err != nil))
	}
	if got := strings.Join(all, ", "); got != "throw1 open true,  ending false,  closed false" || feed.Dropped() != 0 {
		t.Errorf("the events are %q", got)
	}
	feed.Close()
}

var errWhy = errors.New("why")

func TestInlineFaults(t *testing.T) {
	t.Parallel()
	_, err := bullpen.NewInline(bullpen.InlineConfig{
		Handlers: map[string]bullpen.Handler{"none": nil}, Limits: bullpen.Limits{Memory: 1, Timeout: -1}, CloseGrace: -1,
	})
	for _, want := range []string{`"none" is nil`, "Timeout", "CloseGrace", "process pool"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not say %s", err, want)
		}
	}
	if s := fmt.Sprint(bullpen.InlineClosing, bullpen.InlineState(9)); s != "closing state(9)" {
		t.Errorf("the states are %s", s)
	}
}

func ExampleInline() {
	e, err := bullpen.NewInline(bullpen.InlineConfig{Handlers: map[string]bullpen.Handler{
		"upper": func(_ context.Context, t bullpen.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil },
		"throw": func(context.Context, bullpen.Task) ([]byte, error) { panic("out of cheese") },
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	r, err := e.Execute(ctx, bullpen.Task{Name: "upper", Payload: []byte("in this goroutine")})
	fmt.Println(string(r.Payload), err)
	_, err = e.Execute(ctx, bullpen.Task{Name: "throw"})
	fmt.Println(err)
	fmt.Println(e.Drain(ctx))
	// Output:
	// IN THIS GOROUTINE <nil>
	// task "throw" panic: panic: out of cheese
	// <nil>
}
