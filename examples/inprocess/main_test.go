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

// TestReadme holds the README's code against this program.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(code), "func run(")
	if !strings.Contains(string(readme), "\nfunc run("+block+"```") {
		t.Error("README.md does not show main.go as it is")
	}
}
