package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup is made for administrators only, in a new folder, and the log tells of it.
func TestBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "tokens")
	tokens := "read one read-0123456789abcdef\nsubmit two submit-0123456789abcdef\nadmin three admin-0123456789abcdef\n"
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	n := openText(t, fmt.Sprintf("http: {listen: '127.0.0.1:0', tokens: %q}\nqueue: {dir: %q}\npools: {later: {}}\n", file, filepath.Join(folder, "jobs")))
	n.begin()
	n.awaitReady()
	by := func(role string) *node { return &node{t: t, url: n.url, token: role + "-0123456789abcdef"} }
	admin := by("admin")
	admin.want(http.StatusAccepted, http.MethodPost, "/v1/pools/later/jobs", "x")
	backup := filepath.Join(folder, "backup")
	body := fmt.Sprintf(`{"dir":%q}`, backup)
	n.want(http.StatusUnauthorized, http.MethodPost, "/v1/backup", body)
	for _, role := range []string{"read", "submit"} {
		by(role).want(http.StatusForbidden, http.MethodPost, "/v1/backup", body)
	}
	if _, err := os.Stat(backup); err == nil {
		t.Fatal("a backup was made for somebody who may not have one")
	}
	if a := admin.want(http.StatusOK, http.MethodPost, "/v1/backup", body); !strings.Contains(a.body, "backup") {
		t.Errorf("the answer is %s", a.body)
	}
	if text, err := os.ReadFile(filepath.Join(backup, "format")); err != nil || len(text) == 0 {
		t.Errorf("the backup has the format %q, %v", text, err)
	}
	if a := admin.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/backup", body); !strings.Contains(a.body, "exists already") {
		t.Errorf("the answer is %s", a.body)
	}
	for _, body := range []string{``, `{}`, `{"dir":""}`, `{"dir":"backup"}`, `{"dir":7}`, `{"dir":"/x\u0000"}`, `{"folder":"/x"}`, `{"dir":"/` + strings.Repeat("x", 5000) + `"}`} {
		admin.want(http.StatusBadRequest, http.MethodPost, "/v1/backup", body)
	}
	if log := n.journal.String(); strings.Count(log, "a backup of the queue is complete") != 1 || strings.Count(log, "a requested backup of the queue failed") != 1 {
		t.Errorf("the log does not tell of one backup that was made and one that was not: %s", log)
	}
}
