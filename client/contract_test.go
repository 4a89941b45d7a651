package client_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/pool"
)

// handlers are those of the suite, whose contexts say which task they run, as
// those of a daemon's worker do.
func handlers() map[string]bullpen.Handler {
	all := executortest.Handlers()
	for name, h := range all {
		all[name] = func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			return h(client.WithParent(ctx, t), t)
		}
	}
	return all
}

func TestContract(t *testing.T) {
	executortest.Run(t, executortest.Factory{New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return overPool(t, o, client.Config{}, client.ExecutorConfig{})
	}})
}

// overPool makes an executor over a daemon over a goroutine pool.
func overPool(t *testing.T, o executortest.Options, network client.Config, c client.ExecutorConfig) bullpen.Executor {
	t.Helper()
	// The pool gives up on nobody before the executor does.
	workers, err := pool.New(pool.Config{Max: o.Workers, Queue: 1024, Grace: time.Minute, CloseGrace: o.Grace, Handlers: handlers()})
	if err != nil {
		t.Fatal(err)
	}
	helpers, err := pool.New(pool.Config{Max: 2, Queue: 1, Overflow: pool.Reject, Handlers: handlers()})
	if err != nil {
		t.Fatal(err)
	}
	_, network.URL = serve(t, workers, helpers)
	c.Inflight, c.Queue, c.Overflow = o.Workers, o.Queue, client.Overflow(o.Overflow)
	c.CloseGrace = o.Grace
	e, err := connect(t, network).Executor("test", c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestContractByNetHTTP goes the way of requests that cannot go in the goroutine of
// their caller.
func TestContractByNetHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("the other tests of the contract go the way that most callers go")
	}
	executortest.Run(t, executortest.Factory{New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return overPool(t, o, client.Config{Dial: new(net.Dialer).DialContext}, client.ExecutorConfig{})
	}})
}

func TestContractOfDurableTasks(t *testing.T) {
	executortest.Run(t, executortest.Factory{New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return overPool(t, o, client.Config{}, client.ExecutorConfig{Durable: true})
	}})
}
