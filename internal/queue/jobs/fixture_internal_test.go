package jobs

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
)

// memoryEngine opens a store of its own, and closes it at the end of the test.
func memoryEngine(t testing.TB) engine.Engine {
	t.Helper()
	e, err := new(memory.Store).Open(t.Context(), engine.Options{Namespace: "main", Lease: 30 * time.Second})
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

// newID is the id of a job.
func newID() string { return ulid.Make().String() }

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
