package pebble

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// format checks the layout of the folder.
func (v *verifier) format() error {
	f := v.folder
	text, err := f.read(formatFile)
	switch {
	case err == nil:
		if layoutOf(text) == 0 {
			v.report(Damage{Kind: "format", File: f.path(formatFile), Text: "it has no layout number"})
			return nil
		}
		return f.checkFormat()
	case !errors.Is(err, fs.ErrNotExist):
		return f.explain(err)
	}
	if _, err := f.fs.Stat(f.path(dataDir)); err != nil {
		return fmt.Errorf("%s is not a store: it has no file %q and no folder %q", f.dir, formatFile, dataDir)
	}
	v.report(Damage{Kind: "format", File: f.path(formatFile), Text: "it is missing: the folder is only a part of a store, or an interrupted backup"})
	return nil
}

// sizes adds up the files.
func (v *verifier) sizes() error {
	for _, f := range []folder{v.folder, v.folder.data()} {
		names, err := f.fs.List(f.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f.explain(err)
		}
		for _, name := range names {
			if info, err := f.fs.Stat(f.path(name)); err == nil && !info.IsDir() {
				v.summary.Bytes += info.Size()
			}
		}
	}
	return nil
}

// seal compares the files with the seal, if any.
func (v *verifier) seal() error {
	f := v.folder
	all, err := f.read(sealFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return f.explain(err)
	}
	text, sum := "", string(all)
	if i := strings.LastIndexByte(strings.TrimSuffix(sum, "\n"), '\n'); i >= 0 {
		text, sum = sum[:i+1], sum[i+1:]
	}
	if sum != fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli)) {
		v.report(Damage{Kind: "seal", File: f.path(sealFile), Text: "it differs from what was written; the files are not compared with it"})
		return nil
	}
	v.summary.Closed = true
	for line := range strings.Lines(text) {
		if err := v.ctx.Err(); err != nil {
			return fmt.Errorf("verify: %w", context.Cause(v.ctx))
		}
		if err := f.compare(line); err != nil {
			name := strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:])
			v.report(Damage{Kind: fileKind(name), File: f.data().path(name), Text: "it was changed since the store was closed, or cannot be read"})
		}
	}
	return nil
}

// fileKind returns the kind of a data file.
func fileKind(name string) string {
	switch {
	case strings.HasSuffix(name, ".log"):
		return "log"
	case strings.HasSuffix(name, ".sst"):
		return "table"
	case strings.HasPrefix(name, "MANIFEST"):
		return "manifest"
	}
	return "file"
}

// synced compares logs and manifests with their notes.
func (v *verifier) synced() error {
	if v.summary.Closed {
		return nil // the seal covers more
	}
	all, err := v.folder.read(syncedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v.folder.explain(err)
	}
	for ; len(all) >= noteSize; all = all[noteSize:] {
		n, ok := readNote(all[:noteSize])
		if _, has := noteAt(n.name); !ok || !has {
			continue // none, or a torn one
		}
		if err := v.folder.data().checkNote(n); err != nil {
			v.report(Damage{Kind: fileKind(n.name), File: v.folder.data().path(n.name), Text: "it differs from what was synced, or cannot be read"})
		}
	}
	return nil
}

// tables reads all blocks of the database's tables.
func (v *verifier) tables() error {
	var levels [][]pebble.SSTableInfo
	if err := recovered(func() (err error) { levels, err = v.db.SSTables(); return err }); err != nil {
		return v.folder.explain(err)
	}
	for _, level := range levels {
		for i := range level {
			t := &level[i]
			if err := v.ctx.Err(); err != nil {
				return fmt.Errorf("verify: %w", context.Cause(v.ctx))
			}
			v.summary.Tables++
			if err := v.table(t.BackingSSTNum.String() + ".sst"); err != nil {
				v.spans = append(v.spans, span{t.Smallest.UserKey, t.Largest.UserKey})
			}
		}
	}
	return nil
}

// allTables reads the blocks of all table files: it is unknown which of them belong to
// the database.
func (v *verifier) allTables() error {
	names, err := v.folder.fs.List(v.folder.data().dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v.folder.explain(err)
	}
	for _, name := range names {
		if err := v.ctx.Err(); err != nil {
			return fmt.Errorf("verify: %w", context.Cause(v.ctx))
		}
		if path.Ext(name) == ".sst" {
			v.summary.Tables++
			_ = v.table(name) // it is reported
		}
	}
	return nil
}

// table reads all blocks of a table and compares their checksums.
func (v *verifier) table(name string) error {
	err := recovered(func() error {
		file, err := v.folder.fs.Open(v.folder.data().path(name), vfs.SequentialReadsOption)
		if err != nil {
			return err
		}
		readable, err := sstable.NewSimpleReadable(file)
		if err != nil {
			return errors.Join(err, file.Close())
		}
		reader, err := sstable.NewReader(v.ctx, readable, v.options.MakeReaderOptions()) // closes readable on error
		if err != nil {
			return err
		}
		return errors.Join(reader.ValidateBlockChecksums(), reader.Close())
	})
	if err != nil {
		v.report(Damage{Kind: "table", File: v.folder.data().path(name), Text: err.Error()})
	}
	return err
}

// handouts reads which jobs were handed out.
func (v *verifier) handouts() error {
	all, err := v.folder.read(handoutsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v.folder.explain(err)
	}
	for at := 0; at+handoutSize <= min(len(all), mostHandouts*handoutSize); at += handoutSize {
		note := all[at : at+handoutSize]
		h, ok := readHandout(note)
		if !ok {
			if string(note) != string(make([]byte, handoutSize)) {
				v.report(Damage{Kind: "hands", File: v.folder.path(handoutsFile),
					Text: fmt.Sprintf("the note at byte %d differs from what was written: a job may run again as if it had not started", at)})
			}
			continue
		}
		if i, found, _ := v.message(h.space, message{0, h.seq}); found && i.target == "" {
			v.summary.Taken++
		}
	}
	return nil
}
