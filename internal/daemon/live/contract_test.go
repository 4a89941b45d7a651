package live

import (
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/pool"
)

// TestContract shows that a tracked executor keeps the contract as the one below.
func TestContract(t *testing.T) {
	overflows := map[executortest.Overflow]pool.Overflow{
		executortest.Block: pool.Block, executortest.Reject: pool.Reject, executortest.DropOldest: pool.DropOldest,
	}
	executortest.Run(t, executortest.Factory{New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		p, err := pool.New(pool.Config{
			Max: o.Workers, Queue: o.Queue, Overflow: overflows[o.Overflow], Grace: o.Grace, CloseGrace: o.Grace,
			Handlers: executortest.Handlers(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return newHub(t, Config{}).Wrap("test", p)
	}})
}
