package jet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// openAt opens an engine that is connected with server i and knows of the others.
func (k cluster) openAt(ctx context.Context, t *testing.T, i int, namespace string) *Engine {
	t.Helper()
	urls := k.URLs()
	urls = slices.Concat(urls[i:i+1], urls[:i], urls[i+1:])
	conn, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, Config{Conn: conn, Replicas: 3, Owned: true, Options: engine.Options{Namespace: namespace, Lease: 5 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return e
}

// leads returns the server that leads the stream of jobs.
func (k cluster) leads(ctx context.Context, t *testing.T, e *Engine) int {
	t.Helper()
	info, err := e.streamInfo(ctx, engine.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc([]string{"node0", "node1", "node2"}, func(name string) bool { return info.Cluster.Leader == name })
	if i < 0 {
		t.Fatalf("the stream is led by %q", info.Cluster.Leader)
	}
	return i
}

// TestCutOff cuts off from the others the server that a node is connected with:
// the node goes to another one by itself, and puts, reads and takes again.
func TestCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	for _, c := range []struct {
		name    string
		leading bool // the server leads the stream
		idle    bool // the node only waits for jobs
	}{{"follower", false, false}, {"leader", true, false}, {"idle", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := startCluster(t)
			ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
			defer cancel()
			far := k.openAt(ctx, t, 0, "cut")
			i := k.leads(ctx, t, far)
			if !c.leading {
				i = (i + 1) % 3
			}
			far = k.openAt(ctx, t, (i+1)%3, "cut")
			near := k.openAt(ctx, t, i, "cut")
			h := &hand{seen: map[string]int{}, waiting: 1, all: make(chan struct{})}
			var err error
			if h.taker, err = near.Take(mail, h.deliver, h.back); err != nil {
				t.Fatal(err)
			}
			h.ask(1, true)
			k.Cut(i)
			t.Cleanup(func() { k.Heal(i) })
			began := time.Now()
			from := near
			if c.idle {
				from = far
			}
			subject := engine.JobSubject(mail, jobID(1))
			putUntilStored(t, from, subject)
			select {
			case <-h.all:
			case <-ctx.Done():
				t.Fatal("the job did not come")
			}
			switch took := time.Since(began); {
			case took > 40*time.Second:
				t.Errorf("it took %v until the job came", took)
			default:
				t.Logf("it took %v until the job came", took)
			}
			if _, err := near.Get(ctx, engine.Jobs, subject); err != nil && !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("Get = %v", err)
			}
			if url := near.conn.ConnectedUrl(); strings.Contains(k.URLs()[i], strings.TrimPrefix(url, "nats://")) {
				t.Errorf("the node is still connected with %s, which is cut off", url)
			}
		})
	}
}
