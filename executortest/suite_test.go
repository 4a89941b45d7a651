package executortest

import (
	"flag"
	"os"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) {
	if os.Getenv(familyVariable) != "" {
		serveFamily()
		return
	}
	if os.Getenv(brokenVariable) != "" {
		os.Exit(m.Run()) // a broken executor leaks as well
	}
	// Most of these tests wait for an executor that never answers, or for a process.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

func TestReferenceKeepsTheContract(t *testing.T) {
	t.Parallel()
	Run(t, Factory{New: func(_ *testing.T, o Options) bullpen.Executor { return newReference(Handlers(), o) }})
}

func TestReferenceWithMortalWorkersKeepsTheContract(t *testing.T) {
	t.Parallel()
	Run(t, Factory{
		New:        func(_ *testing.T, o Options) bullpen.Executor { return newMortal(o) },
		KillWorker: func(_ *testing.T, e bullpen.Executor) { e.(*reference).kill() },
	})
}
