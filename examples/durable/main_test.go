package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/worker"
)

func TestMain(m *testing.M) {
	if worker.Serving() {
		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"send": send}})
		return
	}
	leak.Main(m)
}

func Example_run() {
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for range 2 { // the second time the job is known to be done
		if err := run(context.Background(), filepath.Join(dir, "jobs")); err != nil {
			panic(err)
		}
	}
	// Output:
	// true true
	// sent <nil>
	// true true
	// sent <nil>
}

// TestTutorial holds the tutorial's code against this program.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(code), "func run(")
	if !strings.Contains(string(page), "\nfunc run("+block+"```") {
		t.Error("docs/tutorial.md does not show main.go as it is")
	}
}
