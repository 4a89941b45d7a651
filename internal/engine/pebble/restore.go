package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged means that a backup is damaged; nothing was restored.
var ErrDamaged = errors.New("the backup is damaged")

// Restore verifies the backup in the folder of c, as Verify does, and copies it to dir.
// dir must not exist; it gets its name when the copy is complete. Jobs that were handed
// out at the time of the backup run again. If the backup is damaged, nothing is copied,
// and the error is ErrDamaged.
func Restore(ctx context.Context, c Config, dir string, report func(Damage)) (s Summary, err error) {
	if err := c.check(); err != nil {
		return s, err
	}
	if dir == "" {
		return s, errors.New("the name of the target folder is empty")
	}
	c = c.withDefaults()
	from := folder{c.FS, c.Dir}
	held, err := from.hold()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	v := &verifier{ctx: ctx, folder: from, onDamage: report}
	if err := v.run(c.Options.Logger); err != nil {
		return v.summary, err
	}
	if v.summary.Damages > 0 {
		return v.summary, fmt.Errorf("%s: %w: nothing was restored; use another backup", c.Dir, ErrDamaged)
	}
	half, err := begin(c.FS, dir)
	if err != nil {
		return v.summary, err
	}
	if err = from.copyTo(ctx, half); err == nil {
		err = half.finish(dir)
	}
	if err != nil {
		err = errors.Join(half.explain(err), c.FS.RemoveAll(half.dir))
	}
	return v.summary, err
}

// copyTo copies everything but the file format, and syncs it.
func (f folder) copyTo(ctx context.Context, to folder) error {
	if err := to.data().make(); err != nil {
		return err
	}
	names, err := f.fs.List(f.data().dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return fmt.Errorf("restore: %w", context.Cause(ctx))
		}
		if err := vfs.Copy(f.fs, f.data().path(name), to.data().path(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{handoutsFile, sealFile, syncedFile} {
		if err := vfs.Copy(f.fs, f.path(name), to.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(to.write(lockFile, nil), to.data().sync())
}
