package run

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// usualConfig is that of a queue of which nothing was said.
func usualConfig() jobs.Config {
	return jobs.Config{
		Node: "node", Lease: 30 * time.Second, KeyWindow: 24 * time.Hour, MaxPayload: 512 << 10, MaxResult: 512 << 10,
		Keep: job.Keep{Lines: 50, LineBytes: 8 << 10, Payloads: 8 << 10},
		Retry: job.Retry{
			Attempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Crashes: 3, Nodes: 10,
			On: []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol},
		},
	}
}

// openNode opens a node on a store of its own, and closes it at the end of the test.
func openNode(t testing.TB, c jobs.Config) *Node {
	t.Helper()
	e, err := (&memory.Store{Shared: true}).Open(t.Context(), engine.Options{Namespace: "main", Lease: c.Lease})
	if err != nil {
		t.Fatal(err)
	}
	q, err := jobs.New(t.Context(), e, c)
	if err != nil {
		t.Fatal(err)
	}
	n := New(q)
	t.Cleanup(func() {
		q.Shut()
		n.Abort()
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// newID is the id of a job.
func newID() string { return ulid.Make().String() }

// moment returns a time to the microsecond, n of them after a fixed one.
func moment(n int64) time.Time { return time.UnixMicro(1_790_000_000_000_000 + n) }

// failure is the error of an attempt that ended so.
func failure(o bullpen.Outcome) *bullpen.TaskError {
	return &bullpen.TaskError{Outcome: o, Task: "task", Message: "it went wrong", Retryable: true, ExitCode: -1}
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
