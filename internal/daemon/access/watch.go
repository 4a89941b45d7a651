package access

import (
	"log/slog"
	"os"
	"time"
)

// watched is something that is read from files, and read again when they change.
type watched struct {
	name  string // for the log
	paths []string
	load  func() error
	seen  []os.FileInfo // by path; nil if there was no file
	fault string        // error of the last load; empty for none
}

// newWatched records the state of the files of something that is about to be loaded.
func newWatched(name string, load func() error, paths ...string) *watched {
	w := &watched{name: name, load: load, paths: paths}
	w.seen, _ = w.look()
	return w
}

// look returns the state of the files, and whether it has changed.
func (w *watched) look() (now []os.FileInfo, changed bool) {
	now = make([]os.FileInfo, len(w.paths))
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			info = nil
		}
		now[i] = info
		if w.seen == nil {
			continue
		}
		before := w.seen[i]
		switch {
		case (info == nil) != (before == nil):
			changed = true
		case info == nil:
		case !os.SameFile(info, before) || !info.ModTime().Equal(before.ModTime()) || info.Size() != before.Size() || info.Mode() != before.Mode():
			changed = true
		}
	}
	return now, changed
}

// check loads what has changed. It retries after an error each time, because two
// files are not written at the same moment, but logs the error only once.
func (w *watched) check(log *slog.Logger) {
	now, changed := w.look()
	if !changed && w.fault == "" {
		return
	}
	w.seen = now
	if err := w.load(); err != nil {
		if err.Error() != w.fault {
			log.Error("a changed file cannot be used", "what", w.name, "error", err)
		}
		w.fault = err.Error()
		return
	}
	w.fault = ""
	log.Info("a changed file is now in use", "what", w.name)
}

// watch checks files until done is closed. So requests never wait for a disk.
func (g *Control) watch(all []*watched, done <-chan struct{}) {
	tick := time.NewTicker(g.times.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, w := range all {
				w.check(g.log)
			}
		case <-done:
			return
		}
	}
}
