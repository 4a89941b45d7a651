//go:build unix

package process

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/states.md from the tables")

// TestStatesDocument keeps docs/states.md equal to the tables in the code.
func TestStatesDocument(t *testing.T) {
	for name, err := range map[string]error{
		"pool": poolStates.Check(Open), "worker": workerStates.Check(WorkerStarting), "task": taskStates.Check(taskWaiting),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := "# States\n\nPrinted from the tables in package process by its tests (`go test ./process -run States -update`).\n" +
		"A move that is not listed is refused.\n\n" +
		"## Process pool\n\n" + poolStates.Markdown() + "\n## Worker process\n\n" + workerStates.Markdown() +
		"\n## Task\n\nA task that is sent waits again when its worker ends before it has started it.\n\n" + taskStates.Markdown()
	file := filepath.Join("..", "docs", "states.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/states.md is not what the tables say; run go test ./process -run States -update")
	}
}
