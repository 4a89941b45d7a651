package secretfile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640} {
		if text, err := Read(write("good", "secret", mode), 6); err != nil || string(text) != "secret" {
			t.Errorf("mode %o: %q, %v", mode, text, err)
		}
		if err := os.Remove(filepath.Join(folder, "good")); err != nil {
			t.Fatal(err)
		}
	}
	bad := map[string]string{
		filepath.Join(folder, "none"):    "none",
		folder:                           "not a regular file",
		write("large", "secret7", 0o600): "larger than 6 bytes",
	}
	if runtime.GOOS != "windows" {
		bad[write("open", "secret", 0o644)] = "chmod 600"
		bad[write("shared", "secret", 0o660)] = "chmod 600"
	}
	for path, says := range bad {
		if _, err := Read(path, 6); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret7") {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}
