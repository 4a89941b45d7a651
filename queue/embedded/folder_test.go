package embedded_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// TestFolderThatOthersMayWrite wants such a folder to be closed to them, with a word.
func TestFolderThatOthersMayWrite(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing on Windows")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "queue")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // as no umask allows
		t.Fatal(err)
	}
	var log bytes.Buffer
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 || !strings.Contains(log.String(), "from=0777 to=0700") {
		t.Errorf("the folder has the mode %v, and the log says:\n%s", info.Mode().Perm(), log.String())
	}
}
