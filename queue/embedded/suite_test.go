package embedded_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/natstest"
	"github.com/bullpen-run/bullpen/internal/queue/queuetest"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// TestContract holds the store in a folder against the contract. Each namespace
// has a folder, and so a server, of its own.
func TestContract(t *testing.T) {
	root := t.TempDir()
	queuetest.Run(t, queuetest.Subject{
		Open: func(t *testing.T, c queue.Config) *queue.Queue {
			t.Helper()
			c.Store = embedded.At(filepath.Join(root, c.Namespace))
			return queuetest.Open(t, c)
		},
		OneNode:  "a folder belongs to one program at a time",
		Parallel: true,
	})
}

// TestContractOfClusters holds three servers, on each of which every job lies,
// against the same contract: only the address is another.
func TestContractOfClusters(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	// Three servers with copies of everything are slow on one machine: the whole
	// contract is for make test-all, and this part of it for .ci/run.
	only := []string{
		"RoundTrip", "Bulk", "Key", "KeySurvivesReopen", "Retry", "Quarantine", "HandlerKnowsItsAttempt", "Wait",
		"WaitFromAnotherNode", "SeenFromAnotherNode", "CancelRunning", "CancelByAnotherNode", "PauseOnAllNodes",
		"RetryDead", "Compensate", "ListNewest", "RetryDeadAll", "Bury", "ScheduleIsKept", "ScheduleOnThreeNodes",
		"GroupsHaveTurns", "GroupLimitsChange", "GroupDeadline", "GroupPlacesGivenBack", "GroupConcurrencyOnNodes",
	}
	if os.Getenv("BULLPEN_LONG") != "" {
		only = nil
	}
	url := natstest.Start(t, natstest.Config{Servers: 3, Lazy: true}).URL()
	queuetest.Run(t, queuetest.Subject{
		Open: func(t *testing.T, c queue.Config) *queue.Queue {
			t.Helper()
			t.Cleanup(func() { forget(t, url, c.Namespace) })
			c.Store = queue.Server{URL: url, Replicas: 3}
			return queuetest.Open(t, c)
		},
		Lease:    2 * time.Second,
		Only:     only,
		Parallel: true,
	})
}

// forget removes what a clause has stored, after its queues are closed, so that
// the servers need not keep it for the rest of the test.
func forget(t *testing.T, url, namespace string) {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		if !strings.HasPrefix(name, "BP_"+namespace+"_") {
			continue
		}
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("remove stream %s: %v", name, err)
		}
	}
	if err := names.Err(); err != nil {
		t.Error(err)
	}
}
