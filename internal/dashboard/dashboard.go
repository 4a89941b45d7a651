// Package dashboard serves the web page for watching a daemon: HTML, CSS and
// JavaScript modules, written by hand and embedded. The page talks only to the API of
// the same daemon.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed ui
var files embed.FS

const (
	entry = "index.html"
	// mark is the placeholder in the page for the version of the files.
	mark = "VERSION"
)

// policy lets the page load files of this package and call its own origin, and
// nothing else: no inline scripts or styles, no frames, no forms, no text parsed as
// HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are the content types of the files.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one served file.
type file struct {
	kind, tag string
	body      []byte
}

// Pages serves the dashboard. It is safe for concurrent use.
type Pages struct {
	files   map[string]file
	version string
}

// New returns the dashboard. It reads the embedded files, less than 100 kB.
func New() (*Pages, error) { return read(files) }

func read(from fs.FS) (*Pages, error) {
	p := &Pages{files: map[string]file{}}
	sum := sha256.New()
	err := fs.WalkDir(from, "ui", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind, known := kinds[path.Ext(name)]
		if !known {
			return fmt.Errorf("dashboard: %s is of no known type: add it to kinds", name)
		}
		body, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(body))
		sum.Write(body)
		p.files[path.Base(name)] = file{kind: kind, tag: tagOf(body), body: body}
		return nil
	})
	if err != nil {
		return nil, err
	}
	index, there := p.files[entry]
	if !there {
		return nil, errors.New("dashboard: there is no " + entry)
	}
	p.version = hex.EncodeToString(sum.Sum(nil)[:8])
	index.body = []byte(strings.ReplaceAll(string(index.body), mark, p.version))
	index.tag = tagOf(index.body)
	p.files[entry] = index
	return p, nil
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// Entry serves the page itself.
func (p *Pages) Entry(w http.ResponseWriter, r *http.Request) {
	p.serve(w, r, entry, "no-cache")
}

// File serves the file that {file} in the pattern names. A file under the present
// {version} never changes, so browsers request it only once.
func (p *Pages) File(w http.ResponseWriter, r *http.Request) {
	keep := "no-cache"
	if r.PathValue("version") == p.version {
		keep = "public, max-age=31536000, immutable"
	}
	name := r.PathValue("file")
	if name == entry {
		name = "" // it has a path of its own
	}
	p.serve(w, r, name, keep)
}

func (p *Pages) serve(w http.ResponseWriter, r *http.Request, name, keep string) {
	f, there := p.files[name]
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", policy)
	if !there {
		http.NotFound(w, r)
		return
	}
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", keep)
	h.Set("ETag", f.tag)
	if sees(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	w.Write(f.body) //nolint:errcheck // the client may be gone
}

// sees reports whether the browser already has the version with this tag.
func sees(known, tag string) bool {
	for one := range strings.SplitSeq(known, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}
