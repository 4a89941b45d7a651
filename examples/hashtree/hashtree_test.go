// Package hashtree runs the example of this folder on a small tree.
package hashtree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// tree makes files with all kinds of names and sizes.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string][]byte{
		"plain": []byte("text\n"), "empty": nil, "with space": []byte("x"), "per%cent": []byte("y"), "per%25cent": []byte("z"),
		"line\nfeed": []byte("w"), "-dash": []byte("d"), "back\\slash": []byte("b"), "ünïcode": []byte("u"),
		"deep/er/and/deeper": []byte("v"), "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<18),
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, flags string) (string, error) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the example is a script for Linux: it uses sha512sum")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	cmd := exec.Command("./run.sh", tree(t))
	cmd.Env = append(os.Environ(), "MAPFLAGS="+flags, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRun(t *testing.T) {
	out, err := run(t, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"hashtree: 11 files below", "bullpen: 11 tasks: 11 ok; ", "workers started", "all 11 results equal sha512sum's"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestRunFails(t *testing.T) {
	out, err := run(t, "--task nonsense")
	if err == nil || strings.Contains(out, "equal") {
		t.Errorf("a run without results passed:\n%s", out)
	}
}
