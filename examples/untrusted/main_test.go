package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/process"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRun runs the program as the tutorial shows it.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: apt-get install python3")
	}
	pool, err := process.New(process.Config{
		Command: []string{"true"}, PIDs: 16, Limits: bullpen.Limits{Memory: 64 << 20, CPU: 0.5},
		Sandbox: process.Sandbox{Profile: process.ProfileStrict},
	})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs(filepath.Join("..", "..", "sdk", "python"))
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "untrusted")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "0.1428571428571428571428571429\nfailed FileNotFoundError\nfailed PermissionError\nmemory \ntimeout \n"
	// Before landlock knew of networks there was just no way to go.
	out = bytes.Replace(out, []byte("failed OSError"), []byte("failed PermissionError"), 1)
	if string(out) != want {
		t.Errorf("it printed\n%swant\n%s", out, want)
	}
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
	_, rest, _ := strings.Cut(string(code), "func run(")
	if !strings.Contains(string(page), "\nfunc run("+rest+"```") {
		t.Error("docs/tutorial.md does not show main.go as it is, from func run on")
	}
}
