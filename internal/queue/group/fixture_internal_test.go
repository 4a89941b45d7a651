package group

import (
	"context"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// openGroups opens groups on a store that nodes share, and closes them at the end of
// the test.
func openGroups(t *testing.T) *Groups {
	t.Helper()
	e, err := (&memory.Store{Shared: true}).Open(t.Context(), engine.Options{Namespace: "main", Lease: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	list, err := jobs.New(t.Context(), e, jobs.Config{
		Node: "node", Lease: 30 * time.Second, KeyWindow: 24 * time.Hour, MaxPayload: 512 << 10, MaxResult: 512 << 10,
		Retry: job.Retry{Attempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Crashes: 3, Nodes: 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := New(list)
	t.Cleanup(func() {
		list.Shut()
		q.StopTaking()
		if err := list.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return q
}
