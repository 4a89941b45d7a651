package pebble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func TestTwoOpenOneFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store{dir: dir}.Open(t.Context(), engine.Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open = %v, want ErrInUse with the folder and the process", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatalf("Open after Close = %v", err)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFoldersThatAreNoStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"of an embedded server": {map[string]string{formatFile: "bullpen-store 1\n", serverDir + "/x": ""}, []string{"layout 1", "NATS", "until its queues are empty"}},
		"of a newer version":    {map[string]string{formatFile: "bullpen-store 3\n"}, []string{"layout 3", "newer version"}},
		"with a damaged end":    {map[string]string{formatFile: "bullpen-store 2\v"}, []string{"has no layout number"}},
		"of nobody knows whom":  {map[string]string{formatFile: "something else\n"}, []string{"has no layout number"}},
		"without a format":      {map[string]string{dataDir + "/x": ""}, []string{"no file"}},
		"of a server":           {map[string]string{serverDir + "/x": ""}, []string{"no file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the first time has left nothing behind
				_, err := store{dir: dir}.Open(t.Context(), engine.Options{})
				if err == nil {
					t.Fatal("Open = nil, want an error")
				}
				for _, words := range append(c.want, dir) {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("Open = %v, want it to say %q", err, words)
					}
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (store{dir: file}).Open(t.Context(), engine.Options{}); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("Open of a file = %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{Reserve: -1, Options: engine.Options{Namespace: "A b", Jobs: -1, Lease: -1}})
	if err == nil {
		t.Fatal("Open = nil, want all faults")
	}
	for _, words := range []string{"Dir", "Reserve", "Namespace", "Jobs", "Lease"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("Open = %v, which does not name %s", err, words)
		}
	}
}
