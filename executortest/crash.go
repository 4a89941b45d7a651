package executortest

import (
	"testing"

	"github.com/bullpen-run/bullpen"
)

// killer opens an executor for a test that kills its workers.
func (f Factory) killer(t *testing.T, o Options) *subject {
	t.Helper()
	need(t, "KillWorker", f.KillWorker != nil, "the factory cannot kill a worker")
	return f.open(t, o)
}

func testKillRunning(t *testing.T, f Factory) {
	s := f.killer(t, Options{Workers: 1})
	for range 3 {
		g, running := s.hold(t.Context())
		waiting := s.queued(5)
		f.KillWorker(t, s.Executor)
		_, err := running.wait(t)
		te := taskError(t, err, bullpen.Crashed)
		if te.Signal == "" && te.ExitCode <= 0 {
			t.Errorf("the error has neither a signal nor an exit status of the worker: %#v", te)
		}
		for _, a := range waiting {
			if _, err := a.wait(t); err != nil {
				t.Errorf("a queued task ended with %v when a worker died, want it run", err)
			}
		}
		g.open()
	}
	s.works()
}

func testKillIdle(t *testing.T, f Factory) {
	s := f.killer(t, Options{Workers: 1})
	for range 20 {
		s.works()
		f.KillWorker(t, s.Executor)
	}
	s.works()
}

func testWorkerExits(t *testing.T, f Factory) {
	s := f.open(t, Options{Workers: 1})
	need(t, "CrashProof", s.can.CrashProof, "a task that ends its process would end this one", s.can.Notes...)
	for range 3 {
		a := s.give(t.Context(), task("exit", "3"))
		waiting := s.queued(5)
		_, err := a.wait(t)
		if te := taskError(t, err, bullpen.Crashed); te.ExitCode != 3 || te.Signal != "" {
			t.Errorf("the error of a worker that exited with status 3 has status %d, signal %q", te.ExitCode, te.Signal)
		}
		for _, other := range waiting {
			if _, err := other.wait(t); err != nil {
				t.Errorf("a queued task ended with %v when a worker exited, want it run", err)
			}
		}
	}
	s.works()
}
