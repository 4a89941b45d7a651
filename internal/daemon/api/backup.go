package api

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// Backup is the answer of /v1/backup.
type Backup struct {
	Dir string `json:"dir"`
}

// longestPath bounds the length of a path, in bytes.
const longestPath = 4096

// backup copies the queue to a folder on this machine while the queue stays in use.
func (a *API) backup(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	var b Backup
	var f faults
	p := readObject(r, []string{"dir"}, &f, func(_ string, value []byte) error { return readString(value, &b.Dir) })
	if p != nil {
		return p
	}
	switch {
	case b.Dir == "":
		f.add(`dir is missing: name a folder on the machine of the daemon that is not there yet, such as "/var/backups/bullpen-1"`)
	case len(b.Dir) > longestPath || strings.ContainsRune(b.Dir, 0):
		f.add(fmt.Sprintf("dir is not a path: use at most %d bytes and no zero byte", longestPath))
	case !filepath.IsAbs(b.Dir):
		f.add("dir is " + quoted(b.Dir) + ": use an absolute path on the daemon's machine")
	}
	if p := f.problem(); p != nil {
		return p
	}
	b.Dir = filepath.Clean(b.Dir)
	if err := a.backend.Queue().Backup(r.Context(), b.Dir); err != nil {
		a.log.Warn("a requested backup of the queue failed", "folder", b.Dir, "error", err)
		return problemOf(err)
	}
	a.log.Info("a backup of the queue is complete", "folder", b.Dir)
	return writeJSON(w, http.StatusOK, b)
}
