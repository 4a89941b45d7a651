package memory

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Factory{
		New:      func(*testing.T) engine.Store { return &Store{Shared: true} },
		Lease:    200 * time.Millisecond,
		Late:     500 * time.Millisecond,
		Parallel: true,
	})
}

func TestContractAlone(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Factory{
		New:      func(*testing.T) engine.Store { return new(Store) },
		Lease:    200 * time.Millisecond,
		Late:     500 * time.Millisecond,
		Parallel: true,
	})
}
