package pebble

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
)

// store is one that can be opened again and again.
type store struct {
	fs  vfs.FS
	dir string
}

func (s store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := Open(ctx, Config{Dir: s.dir, FS: s.fs, Options: o})
	if err != nil {
		return nil, err // not e, which would be an interface that holds nil
	}
	return e, nil
}

func TestContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Factory{
		New:      inFolder,
		Lease:    300 * time.Millisecond,
		Parallel: true,
	})
}

func TestContractInMemory(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Factory{
		New:      func(*testing.T) engine.Store { return store{fs: vfs.NewMem(), dir: "store"} },
		Lease:    300 * time.Millisecond,
		Parallel: true,
	})
}

func inFolder(t *testing.T) engine.Store {
	t.Helper()
	return store{dir: t.TempDir()}
}
