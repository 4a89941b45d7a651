package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

// suiteTasks are the names of the tasks of package executortest.
func suiteTasks() (names []string) {
	for name := range executortest.Handlers() {
		names = append(names, name)
	}
	return names
}

// buildGuest builds a package of testdata for wasip1, and returns the path of the module.
func buildGuest(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), folder+".wasm")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./"+folder)
	c.Dir = "testdata"
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false") // not -race
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// suite makes pools for executortest. The handlers are those of the suite, in the worker SDK,
// compiled to a command. The gates of the suite are files, so the folder of those is mapped.
func suite(t *testing.T) executortest.Factory {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("it takes minutes with the race detector: run it without one of the two, -race or -short")
	}
	path, cache := buildGuest(t, "suite"), t.TempDir()
	return executortest.Factory{
		Guests: true, Unasked: true,
		New: func(t *testing.T, o executortest.Options) bullpen.Executor {
			t.Helper()
			p, err := New(Config{
				Path: path, CacheDir: cache, Tasks: suiteTasks(),
				Max: o.Workers, Queue: o.Queue, Overflow: Overflow(o.Overflow),
				Limits: bullpen.Limits{Memory: o.Bounds.Memory},
				Mounts: []Mount{{Host: os.TempDir(), Writable: true}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	}
}

func TestContract(t *testing.T) {
	executortest.Run(t, suite(t))
}

// TestNeighbours is not parallel, as the suite demands.
func TestNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	executortest.Neighbours(t, suite(t))
}
