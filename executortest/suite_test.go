package executortest

import (
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
	leak.Main(m)
}

func TestReferenceKeepsTheContract(t *testing.T) {
	Run(t, Factory{New: func(_ *testing.T, o Options) bullpen.Executor { return newReference(Handlers(), o) }})
}

func TestReferenceWithMortalWorkersKeepsTheContract(t *testing.T) {
	Run(t, Factory{
		New:        func(_ *testing.T, o Options) bullpen.Executor { return newMortal(o) },
		KillWorker: func(_ *testing.T, e bullpen.Executor) { e.(*reference).kill() },
	})
}
