//go:build unix

package process

import (
	"runtime"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

func TestContract(t *testing.T) {
	executortest.Run(t, executortest.Factory{New: newForSuite, KillWorker: killOne})
}

func newForSuite(t *testing.T, o executortest.Options) bullpen.Executor {
	t.Helper()
	return open(t, Config{
		Command: []string{self()}, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
		Overflow: Overflow(o.Overflow), Grace: o.Grace,
	})
}

// killOne kills a worker that runs a task, or an idle one where none does.
func killOne(t *testing.T, e bullpen.Executor) {
	t.Helper()
	p := poolOf(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	var victim *worker
	for _, w := range p.workers {
		if w.pid != 0 && !w.exited && (victim == nil || w.count > 0) {
			victim = w
		}
	}
	if victim == nil {
		return
	}
	_ = victim.child.Kill()
	// A web server that is about to die may still read a task, which then may have begun.
	for p.config.network && !victim.child.Ended() {
		runtime.Gosched()
	}
}
