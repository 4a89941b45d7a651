package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRun runs the program as the README shows it.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: apt-get install python3")
	}
	sdk, err := filepath.Abs(filepath.Join("..", "..", "sdk", "python"))
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "\"hello\": HELLO\n\"\": failed\n\"sleep\": timeout\n\"crash\": crashed\n"
	if string(out) != want {
		t.Errorf("it printed\n%swant\n%s", out, want)
	}
}

// TestShown holds what the README and the tutorial show against this program.
func TestShown(t *testing.T) {
	for _, c := range []struct{ file, begin, end, page string }{
		{"main.go", "func run(", "}\n", "README.md"},
		{"worker.py", "import os", "bullpen.run()\n", "docs/tutorial.md"},
	} {
		page, err := os.ReadFile(filepath.Join("..", "..", c.page))
		if err != nil {
			t.Fatal(err)
		}
		code, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(code), c.begin)
		block := c.begin + rest
		if !strings.HasSuffix(block, c.end) {
			t.Fatalf("%s does not end with %q", c.file, c.end)
		}
		if !strings.Contains(string(page), "\n"+block+"```") {
			t.Errorf("%s does not show %s as it is, from %q on", c.page, c.file, c.begin)
		}
	}
}
