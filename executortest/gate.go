package executortest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// gate is a task that signals when it has started and runs until it is released. If
// tasks cannot access files, it just runs for a while.
type gate struct {
	t     *testing.T
	path  string
	files bool
	asked bool // a task is asked to end before it is killed
}

func (s *subject) gate() *gate {
	s.t.Helper()
	return &gate{t: s.t, path: filepath.Join(s.t.TempDir(), "gate"), files: !s.can.NoFilesystem, asked: !s.unasked}
}

// blindWait is how long a gate runs if it cannot be released.
const blindWait = 500 * time.Millisecond

func (g *gate) task() bullpen.Task {
	if !g.files {
		return task("sleep", blindWait.String())
	}
	return task("gate", g.path)
}

// awaitStart waits until the task runs.
func (g *gate) awaitStart() {
	g.t.Helper()
	if !g.files {
		_ = wait(g.t.Context(), blindWait/5) // there is no signal to wait for
		return
	}
	eventually(g.t, "a task starts", func() bool { return exists(g.path + ".started") })
}

// awaitCancel waits until the task has noticed its cancellation.
func (g *gate) awaitCancel() {
	g.t.Helper()
	if g.files && g.asked {
		eventually(g.t, "a task is asked to end", func() bool { return exists(g.path + ".ended") })
	}
}

// open lets the task succeed.
func (g *gate) open() {
	g.t.Helper()
	if !g.files {
		return
	}
	if err := os.WriteFile(g.path, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// hold submits a task that runs until the gate is opened, and waits until it runs.
func (s *subject) hold(ctx context.Context) (*gate, *answer) {
	s.t.Helper()
	g := s.gate()
	a := s.give(ctx, g.task())
	g.awaitStart()
	return g, a
}
