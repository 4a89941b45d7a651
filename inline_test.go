package bullpen_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// inline is the least executor that examples and tests of this package need: a
// goroutine for each task, and no bound. Package executortest has one that keeps
// the whole contract.
type inline struct {
	handlers map[string]bullpen.Handler

	mu     sync.Mutex
	closed bool // guarded by mu
	tasks  sync.WaitGroup
}

// newInline serves upper, fail, and block, which waits for the end of its
// context.
func newInline() *inline {
	return &inline{handlers: map[string]bullpen.Handler{
		"upper": func(_ context.Context, t bullpen.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil },
		"fail": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return nil, bullpen.Fail(string(t.Payload), false)
		},
		"block": func(ctx context.Context, _ bullpen.Task) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() },
	}}
}

func (e *inline) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	handler := e.handlers[t.Name]
	switch {
	case e.closed:
		return bullpen.ErrClosed
	case handler == nil:
		return bullpen.ErrUnknownTask
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	e.tasks.Go(func() { // ends with the handler; the endings wait for it
		payload, err := handler(ctx, t)
		if err == nil {
			done(bullpen.Result{Payload: payload}, nil)
			return
		}
		outcome := bullpen.Failed
		if ctx.Err() != nil {
			outcome = bullpen.Canceled
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				outcome = bullpen.Timeout
			}
		}
		done(bullpen.Result{}, &bullpen.TaskError{
			Outcome: outcome, Task: t.Name, ID: t.ID, Message: err.Error(), Retryable: bullpen.Retryable(err), Err: err,
		})
	})
	return nil
}

func (e *inline) Capacity() int                  { return 1 }
func (e *inline) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{} }

func (e *inline) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.tasks.Wait()
	return nil
}

func (e *inline) Stop(context.Context) error  { return e.Close() }
func (e *inline) Drain(context.Context) error { return e.Close() }

var _ bullpen.Executor = (*inline)(nil)

// upper makes a task for each word of a text.
func upper(text string) []bullpen.Task {
	var all []bullpen.Task
	for word := range strings.FieldsSeq(text) {
		all = append(all, bullpen.Task{Name: "upper", Payload: []byte(word)})
	}
	return all
}
