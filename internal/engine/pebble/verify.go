package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Damage is a part of a store that differs from what was written, or that contradicts
// another part.
type Damage struct {
	// Kind is the damaged part. The files are "format", "seal", "log", "manifest",
	// "table", "file" and "hands"; the entries in the tables are "name", "message",
	// "record", "index", "ready", "timed", "counts", "number", "paused" and "key".
	Kind string `json:"kind"`
	// File is the path of the file, if one file is damaged.
	File string `json:"file,omitempty"`
	// Namespace and Stream locate the damage, as far as known.
	Namespace string `json:"namespace,omitempty"`
	Stream    string `json:"stream,omitempty"`
	// Subject is the subject of the message, and Job the id of its job.
	Subject string `json:"subject,omitempty"`
	Job     string `json:"job,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	// Text describes the damage.
	Text string `json:"text"`
}

// String describes all of d.
func (d Damage) String() string {
	var b strings.Builder
	b.WriteString(d.Kind)
	add := func(word, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s%s", word, value)
		}
	}
	add("", d.File)
	add("of ", d.Stream)
	if d.Seq > 0 {
		fmt.Fprintf(&b, " number %d", d.Seq)
	}
	add("on ", d.Subject)
	if d.Namespace != "" {
		fmt.Fprintf(&b, " in namespace %q", d.Namespace)
	}
	return b.String() + ": " + d.Text
}

// Summary says what a store holds, and how much of it is damaged.
type Summary struct {
	Jobs      int64 `json:"jobs"`      // jobs that have not ended; Scheduled of them wait for their time
	Scheduled int64 `json:"scheduled"` //
	Taken     int64 `json:"taken"`     // jobs that were handed out
	Outcomes  int64 `json:"outcomes"`
	Dead      int64 `json:"dead"`
	State     int64 `json:"state"`
	Keys      int64 `json:"keys"`   // keys read
	Tables    int   `json:"tables"` // tables read
	Bytes     int64 `json:"bytes"`  // size of all files
	// Closed reports whether the store was closed in order, so that checksums of all its
	// files exist.
	Closed  bool  `json:"closed"`
	Damages int64 `json:"damages"`
}

// Verify reads the whole store in a folder that no program has open. It changes nothing,
// and calls report for each damage. After a damage it continues if it can. An error means
// that it could not check the store: it does not exist, it is in use, or ctx has ended.
func Verify(ctx context.Context, c Config, report func(Damage)) (Summary, error) {
	if err := c.check(); err != nil {
		return Summary{}, err
	}
	c = c.withDefaults()
	f := folder{c.FS, c.Dir}
	held, err := f.hold()
	if err != nil {
		return Summary{}, err
	}
	v := &verifier{ctx: ctx, folder: f, onDamage: report, check: c.Check}
	err = errors.Join(v.run(c.Options.Logger), held.Close())
	return v.summary, err
}

// hold locks an existing folder, so that no program changes it meanwhile.
func (f folder) hold() (io.Closer, error) {
	if info, err := f.fs.Stat(f.dir); err != nil {
		return nil, f.explain(err)
	} else if !info.IsDir() {
		return nil, f.explain(syscall.ENOTDIR)
	}
	if _, err := f.fs.Stat(f.path(lockFile)); errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil // it was never opened
	}
	held, err := f.fs.Lock(f.path(lockFile))
	switch {
	case err == nil:
		return held, nil
	case errors.Is(err, syscall.EROFS):
		return noLock{}, nil // no program can change it
	case errors.Is(err, fs.ErrPermission):
		return nil, f.explain(err)
	}
	return nil, f.inUse(err)
}

// verifier reads a store once.
type verifier struct {
	ctx      context.Context //nolint:containedctx // it lives for one call
	folder   folder
	onDamage func(Damage)
	check    func(engine.Message) error // nil for none
	summary  Summary

	options *pebble.Options
	db      *pebble.DB
	spans   []span           // the key ranges of tables that cannot be read completely
	names   map[space]string // of the namespaces
	broken  bool             // some keys could not be read, so counts are not compared
}

// span is the range from the lowest to the highest key of a table.
type span struct{ low, high []byte }

func (v *verifier) report(d Damage) {
	v.summary.Damages++
	v.onDamage(d)
}

func (v *verifier) run(log *slog.Logger) error {
	if err := v.format(); err != nil {
		return err
	}
	for _, look := range []func() error{v.sizes, v.seal, v.synced} {
		if err := look(); err != nil {
			return err
		}
	}
	opened, err := v.open(log)
	if err != nil || !opened {
		return err
	}
	err = v.data()
	if closed := recovered(v.db.Close); closed != nil && v.summary.Damages == 0 {
		err = errors.Join(err, v.folder.explain(closed)) // otherwise it may still hold what is damaged
	}
	return err
}

// data checks the database.
func (v *verifier) data() error {
	if err := v.tables(); err != nil {
		return err
	}
	if err := v.keys(); err != nil {
		return err
	}
	return v.handouts()
}

// open opens the database for reading, and reports whether that worked.
func (v *verifier) open(log *slog.Logger) (bool, error) {
	v.options = &pebble.Options{
		FS: readOnly{v.folder.fs}, ReadOnly: true, ErrorIfNotExists: true, FormatMajorVersion: logFormat,
		CacheSize: cacheSize, MaxOpenFiles: openFiles,
		Logger: &logger{log: log, halt: func(err error) { panic(err) }},
		// Readers get the error; without a listener Pebble would end the program.
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}},
	}
	for i := range v.options.Levels {
		v.options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	v.options.EnsureDefaults()
	err := recovered(func() (err error) {
		v.db, err = pebble.Open(v.folder.data().dir, v.options)
		return err
	})
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return false, v.folder.explain(err)
	}
	v.report(Damage{Kind: "file", File: v.folder.data().dir, Text: "the store cannot be opened: " + err.Error()})
	return false, v.allTables()
}

// recovered calls a function that may panic on damage.
func recovered(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the store: %v", r)
		}
	}()
	return call()
}

// readOnly is a file system that refuses all changes.
type readOnly struct{ vfs.FS }

var errReadOnly = errors.New("the folder is open for reading only and must not be changed")

// Create refuses.
func (readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link refuses.
func (readOnly) Link(string, string) error { return errReadOnly }

// OpenReadWrite refuses.
func (readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove refuses.
func (readOnly) Remove(string) error { return errReadOnly }

// RemoveAll refuses.
func (readOnly) RemoveAll(string) error { return errReadOnly }

// Rename refuses.
func (readOnly) Rename(string, string) error { return errReadOnly }

// ReuseForWrite refuses.
func (readOnly) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll refuses to create a folder.
func (r readOnly) MkdirAll(dir string, _ fs.FileMode) error {
	_, err := r.Stat(dir)
	return err
}

// Lock locks nothing: the folder above is locked.
func (readOnly) Lock(string) (io.Closer, error) { return noLock{}, nil }

// Unwrap returns the underlying file system.
func (r readOnly) Unwrap() vfs.FS { return r.FS }

// jobOf returns the id of the job that a message is about, if any.
func jobOf(s engine.Stream, subject string) string {
	if s != engine.State || strings.HasPrefix(subject, "try.") || strings.HasPrefix(subject, "live.") {
		return engine.LastToken(subject)
	}
	return ""
}
