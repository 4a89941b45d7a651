//go:build unix

package settings

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestIrregularFile shows that only files are read: a pipe into which nobody writes
// would hold up whoever reads it.
func TestIrregularFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "bullpen.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, folder, "/dev/null"} {
		_, err := Load(Source{Path: path})
		var faults Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
