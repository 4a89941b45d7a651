package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

var _ engine.Backuper = (*Engine)(nil)

// unfinished is the suffix of a folder that is not complete.
const unfinished = ".unfinished"

// Backup copies the store to a folder while it works. Tables are linked if the file
// system supports links.
func (e *Engine) Backup(ctx context.Context, dir string) error {
	if err := e.begun(ctx, "backup"); err != nil {
		return err
	}
	defer e.open.RUnlock()
	if !e.aside.one.TryLock() {
		return fmt.Errorf("%w: another one is running; wait until it has ended", engine.ErrBackup)
	}
	defer e.aside.one.Unlock()
	if within(dir, e.folder.dir) {
		return fmt.Errorf("%w: %s is in the folder of the store; use a folder outside it", engine.ErrBackup, dir)
	}
	half, err := begin(e.folder.fs, dir)
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrBackup, err)
	}
	if err = e.copyTo(ctx, half); err == nil {
		err = half.finish(dir)
	}
	if err == nil {
		return nil
	}
	left := half.fs.RemoveAll(half.dir)
	if failed := e.Err(); failed != nil {
		return failed
	}
	if ended := e.aside.ended(); ended != nil {
		err = ended // the errors that follow from it say less
	}
	return fmt.Errorf("%w: %w", engine.ErrBackup, errors.Join(err, left))
}

// within reports whether a path is a folder or below it.
func within(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	below, err := filepath.Rel(dir, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// copyTo copies everything but the file format. open is locked for reading.
func (e *Engine) copyTo(ctx context.Context, half folder) error {
	e.aside.begin(ctx, half)
	defer e.aside.end()
	// A job handed out at the time of the checkpoint is in the file before the checkpoint
	// or after it.
	held := e.handouts.all(map[handout]struct{}{})
	if err := e.untilHalt(func() error { return e.db.Checkpoint(half.data().dir) }); err != nil {
		return err
	}
	var text []byte
	for h := range e.handouts.all(held) {
		text = append(text, h.encode()...)
	}
	if err := errors.Join(half.write(handoutsFile, text), half.write(lockFile, nil)); err != nil {
		return err
	}
	if err := half.seal(); err != nil {
		return err
	}
	return e.aside.ended()
}

// all adds the messages that are handed out.
func (h *handouts) all(to map[handout]struct{}) map[handout]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	for note := range h.offsets {
		to[note] = struct{}{}
	}
	return to
}

// begin creates the folder that finish renames to dir.
func begin(fsys vfs.FS, dir string) (half folder, err error) {
	half = folder{fsys, dir + unfinished}
	for path, words := range map[string]string{
		dir: "exists already: name a new folder", half.dir: "was left by an interrupted one: remove it",
	} {
		if _, err := fsys.Stat(path); err == nil {
			return half, fmt.Errorf("%s %s", path, words)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return half, half.explain(err)
		}
	}
	return half, half.explain(half.make())
}

// finish turns a folder into a store and renames it to dir, in one step that survives a
// loss of power. All other files have been synced.
func (f folder) finish(dir string) error {
	if err := f.sync(); err != nil {
		return err
	}
	if err := f.replace(formatFile, layoutText(formatVersion)); err != nil {
		return err
	}
	if _, err := f.fs.Stat(dir); err == nil {
		return fmt.Errorf("%s exists already: name a new folder", dir)
	}
	if err := f.fs.Rename(f.dir, dir); err != nil {
		return err
	}
	return folder{f.fs, f.fs.PathDir(dir)}.sync()
}
