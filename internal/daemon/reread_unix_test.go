//go:build unix

package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reload asks the program to read its configuration again.
func (s *served) reload() (status int, body string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/reload", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestFileIsAway shows that nothing which may become of the configuration file takes
// pools away, or keeps the program from ending.
func TestFileIsAway(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "bullpen.yaml")
	const text = "pools:\n  one: {command: cat, protocol: lines}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveIn(t, folder)
	for _, c := range []struct {
		name string
		do   func() error
		says string
	}{
		{"removed", func() error { return os.Remove(file) }, "cannot be read"},
		{"empty", func() error { return os.WriteFile(file, nil, 0o600) }, "pools: {}"},
		{"a pipe", func() error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, "not a regular file"},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if status, body := s.reload(); status != http.StatusUnprocessableEntity || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s, want 422 and %q", c.name, status, body, c.says)
		}
	}
	for range 10 {
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v, want exit status 0", err)
	}
	s = serveIn(t, t.TempDir())
	if status, body := s.reload(); status != http.StatusUnprocessableEntity || !strings.Contains(body, "started without a configuration file") {
		t.Errorf("without a file: %d %s", status, body)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v, want exit status 0", err)
	}
}
