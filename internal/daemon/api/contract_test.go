package api

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/pool"
)

// TestContract shows that ephemeral tasks which go through the API keep the
// contract of executors: the client's executor, this API, and a pool behind it.
func TestContract(t *testing.T) {
	executortest.Run(t, executortest.Factory{New: overHTTP})
}

// overHTTP makes an executor of a client, whose daemon is a testDaemon.
func overHTTP(t *testing.T, o executortest.Options) bullpen.Executor {
	t.Helper()
	all := executortest.Handlers()
	for name, h := range all {
		all[name] = func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			return h(client.WithParent(ctx, t), t)
		}
	}
	h := testDaemonOf(t, pool.Config{Max: o.Workers, Queue: 1024, Grace: time.Minute, CloseGrace: o.Grace, Handlers: all})
	a, err := New(Config{Backend: h, MaxPayload: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	server := httptest.NewServer(a.Handler())
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.CloseClientConnections()
		h.pool.Close() // what is stuck is for the tests to see
		server.Close()
	})
	t.Cleanup(c.Close)
	e, err := c.Executor("main", client.ExecutorConfig{
		Inflight: o.Workers, Queue: o.Queue, Overflow: client.Overflow(o.Overflow), CloseGrace: o.Grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
