package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func Example_run() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// 1 <nil>
	// 4 <nil>
	// 9 <nil>
	// timeout true
	// panic true
	// 4 <nil>
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
