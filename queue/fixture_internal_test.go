package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/job"
)

// openOn opens a queue and closes it at the end of the test.
func openOn(t testing.TB, c Config) *Queue {
	t.Helper()
	if c.Store == nil {
		c.Store = Memory()
	}
	q, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// workOn runs a call of Work until the test ends or stop is called, which gives
// its error.
func workOn(t testing.TB, q *Queue, e bullpen.Executor, c WorkConfig) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Work(ctx, e, c) }() // ends with ctx; stop waits
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil && !errors.Is(err, job.ErrClosed) {
			t.Error(err)
		}
	})
	return stop
}

func enqueued(t testing.TB, q *Queue, j job.Job) job.Ref {
	t.Helper()
	ref, err := q.Enqueue(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// submit is an executor that is nothing but its Submit.
type submit func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error

func (f submit) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	return f(ctx, t, done)
}
func (submit) Capacity() int                  { return 4 }
func (submit) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{} }
func (submit) Drain(context.Context) error    { return nil }
func (submit) Stop(context.Context) error     { return nil }
func (submit) Close() error                   { return nil }

// team is an executor with a goroutine for each task and size places.
type team struct {
	submit

	size    int
	running atomic.Int64
	most    atomic.Int64 // that ran at the same time
}

// newTeam makes a team whose tasks call handler. An error that is no TaskError
// becomes the outcome failed.
func newTeam(size int, handler bullpen.Handler) *team {
	c := &team{size: size}
	c.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
		n := c.running.Add(1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		go func() { // ends with the handler; the queue waits for done
			b, err := handler(ctx, t)
			c.running.Add(-1)
			var te *bullpen.TaskError
			switch {
			case err == nil:
			case errors.As(err, &te):
			case ctx.Err() != nil:
				err = failure(bullpen.Canceled)
			default:
				err = &bullpen.TaskError{Outcome: bullpen.Failed, Message: err.Error(), Retryable: bullpen.Retryable(err), ExitCode: -1}
			}
			done(bullpen.Result{Payload: b}, err)
		}()
		return nil
	}
	return c
}

func (c *team) Capacity() int { return max(0, c.size-int(c.running.Load())) }

func echoes(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil }

// failure is the error of an attempt that ended so.
func failure(o bullpen.Outcome) *bullpen.TaskError {
	return &bullpen.TaskError{Outcome: o, Task: "task", Message: "it went wrong", Retryable: true, ExitCode: -1}
}

// newID is the id of a job.
func newID() string { return ulid.Make().String() }

// moment returns a time to the microsecond, n of them after a fixed one.
func moment(n int64) time.Time { return time.UnixMicro(1_790_000_000_000_000 + n) }

// rawEngine opens an engine beside a queue, to look at the store and to change it.
func rawEngine(t testing.TB, s engine.Store) engine.Engine {
	t.Helper()
	e, err := s.Open(t.Context(), engine.Options{Namespace: "main", Lease: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func putRaw(t testing.TB, e engine.Engine, p engine.Put) uint64 {
	t.Helper()
	var seq uint64
	answer := make(chan error, 1)
	e.Put(p, func(n uint64, err error) {
		seq = n
		answer <- err
	})
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	return seq
}

// failing makes operations of a store fail while there are some left to fail.
func failing(s *memory.Store, name string, stream engine.Stream, times int, err error) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(int64(times))
	s.Inject(func(o memory.Operation) memory.Fault {
		if o.Name == name && o.Stream == stream && left.Add(-1) >= 0 {
			return memory.Fault{Err: err}
		}
		return memory.Fault{}
	})
	return left
}

// logged is a slog.Handler that keeps its records.
type logged struct {
	mu      sync.Mutex
	records []slog.Record // guarded by mu
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r.Clone())
	return nil
}

// of returns the values of a key in the records that have a message.
func (l *logged) of(message, key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, r := range l.records {
		if r.Message != message {
			continue
		}
		value := ""
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == key {
				value = a.Value.String()
			}
			return true
		})
		found = append(found, value)
	}
	return found
}
