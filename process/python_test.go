//go:build unix

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func TestPythonWorkers(t *testing.T) {
	t.Parallel()
	c := python(t)
	c.Max = 2
	p := open(t, c)
	tasks := make([]bullpen.Task, 500)
	for i := range tasks {
		tasks[i] = bullpen.Task{Name: "echo", Payload: fmt.Appendf(nil, "%d %s", i, strings.Repeat("p", i*100))}
	}
	for i, e := range p.ExecuteAll(within(t, 60*time.Second), tasks) {
		if e.Err != nil || string(e.Result.Payload) != string(tasks[i].Payload) {
			t.Fatalf("task %d: %d bytes, %v", i, len(e.Result.Payload), e.Err)
		}
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "fail", Payload: []byte("!no")})
	if te := wantOutcome(t, err, bullpen.Failed); te.Message != "!no" || te.Retryable {
		t.Errorf("the error is %+v", te)
	}
	if got := do(t, p, "unheard of", ""); got != "any:unheard of" {
		t.Errorf("the handler of all names gives %q", got)
	}
}

// What a Python worker says of its tasks, asked and unasked, and how it is asked
// to end them.
func TestPythonWorkerTalksAndListens(t *testing.T) {
	t.Parallel()
	c := python(t)
	file := filepath.Join(t.TempDir(), "talker.py")
	if err := os.WriteFile(file, []byte(`
import logging, sys, time
import bullpen

@bullpen.task
def report(payload: bytes, task: bullpen.Task) -> bytes:
    task.progress(0.25, "a quarter")
    logging.getLogger("x").warning("careful")
    task.progress(1.0, "all")
    return payload

@bullpen.task
def chatter(payload: bytes) -> bytes:
    print("on stdout")
    print("on stderr", file=sys.stderr)
    return b"quiet"

@bullpen.task
def loop(payload: bytes) -> bytes:
    while True:
        time.sleep(0.01)

bullpen.run()
`), 0o600); err != nil {
		t.Fatal(err)
	}
	j := newJournal()
	c.Command[1], c.Max, c.Grace, c.Logger = file, 1, time.Minute, j.logger()
	p := open(t, c)
	heard := &notes{}
	if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "report", Observer: heard}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the observer hears progress and log", heard.heard)
	if got := do(t, p, "chatter", ""); got != "quiet" {
		t.Errorf("the answer is %q", got)
	}
	poll(t, "both lines are in the log", func() bool {
		seen := map[string]string{}
		for _, e := range j.lines() {
			seen[e.attrs["text"]] = e.attrs["stream"]
		}
		return seen["on stdout"] == "stdout" && seen["on stderr"] == "stderr"
	})
	began := time.Now()
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "loop", Limits: bullpen.Limits{Timeout: 100 * ms}})
	if te := wantOutcome(t, err, bullpen.Timeout); te.Signal != "" || time.Since(began) > 15*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), te)
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("%d workers were started, one was asked and obeyed", s.Started)
	}
}
