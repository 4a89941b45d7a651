//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestLevels runs the handlers at each level, with the same results.
func TestLevels(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	for path, env := range map[string][]string{program: nil, program + ".wasm": {"GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false"}} {
		c := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./worker")
		c.Env = append(os.Environ(), env...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	for level, path := range map[string]string{"goroutine": "", "wasm": program + ".wasm", "process": program, "strict": program} {
		t.Run(level, func(t *testing.T) { atLevel(t, level, path) })
	}
	if _, err := open("other", ""); err == nil {
		t.Error("an unknown level was accepted")
	}
}

func atLevel(t *testing.T, level, path string) {
	t.Helper()
	e, err := open(level, path)
	if err != nil && level == "strict" {
		t.Skip("this machine cannot keep the profile: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	do := func(text string) (bullpen.Result, error) {
		return bullpen.Execute(context.Background(), e, bullpen.Task{Name: "words", ID: "1", Payload: []byte(text)})
	}
	if r, err := do("to be\nor not to be\n"); err != nil || string(r.Payload) != "2 6 19" {
		t.Errorf("the result is %q, %v", r.Payload, err)
	}
	_, err = do("")
	var te *bullpen.TaskError
	if !errors.As(err, &te) || te.Outcome != bullpen.Failed || te.Message != "there is no text" || te.Retryable || te.ID != "1" {
		t.Errorf("the failure is %v", err)
	}
	_, err = bullpen.Execute(context.Background(), e, bullpen.Task{Name: "other"})
	if !errors.Is(err, bullpen.ErrUnknownTask) {
		t.Errorf("an unknown task gave %v", err)
	}
}
