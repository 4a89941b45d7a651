package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// ledger is a count of what should be in the store, apart from the store: an
// entry for each job that was accepted and one for each that has ended. It is
// used by the goroutine of the gate alone, after openLedger and before close.
//
// What it names was durable before. A process that is killed leaves out
// none whose callback was called. Its own entries are durable with the sync of the next group.
type ledger struct {
	dir    string
	log    *slog.Logger
	file   *os.File // where entries are appended; nil when it was given up
	number uint64   // of file
	size   int64    // of all files
	limit  int64    // size above which they are compacted
	buf    []byte
	odd    bool // an id that is no ULID was told of

	compacting chan compaction // has one element when the goroutine is through; nil when there is none
	stop       chan struct{}   // closed to end the goroutine early
}

// compaction is how a compaction ended.
type compaction struct {
	size int64
	err  error
}

const (
	// smallLedger is the size up to which it is never compacted while running.
	smallLedger = 64 << 20
	// growth is how many times its size after a compaction it may reach.
	growth = 4
	// manyFiles is how many files are compacted at a start, and worthIt how many
	// bytes of jobs that have ended.
	manyFiles = 8
	worthIt   = 1 << 20
)

// found is what the ledger says at the start.
type found struct {
	ids    []id // accepted and not ended
	known  bool // false when there was no ledger
	damage []string
}

// openLedger reads the ledger in dir and begins a new file.
func openLedger(dir string, fresh bool, log *slog.Logger) (*ledger, found, error) {
	l := &ledger{dir: dir, log: log, limit: smallLedger}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, found{}, explain(dir, err)
	}
	out, files, err := l.read(fresh)
	if err != nil {
		return nil, found{}, explain(dir, err)
	}
	if len(files) > 0 {
		l.number = files[len(files)-1].number
	}
	if err := l.begin(); err != nil {
		return nil, found{}, explain(dir, err)
	}
	if err := syncFolder(dir); err != nil {
		return nil, found{}, errors.Join(explain(dir, err), l.file.Close())
	}
	live := int64(len(out.ids)) * recordSize
	if len(files) >= manyFiles || l.size-live > max(worthIt, live) {
		l.compact(l.number - 1)
	}
	return l, out, nil
}

// read reads all files and mends the last one.
func (l *ledger) read(fresh bool) (found, []ledgerFile, error) {
	files, stale, err := ledgerFiles(l.dir)
	if err != nil {
		return found{}, nil, err
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found{}, nil, err
		}
	}
	out := found{known: fresh || len(files) > 0, damage: missing(files)}
	var size int64
	for _, f := range files {
		size += f.size
	}
	t := newTally(size)
	for i, f := range files {
		path := f.path(l.dir)
		c, err := readFile(path, t)
		if err != nil {
			return found{}, nil, err
		}
		for _, d := range c.damage {
			out.damage = append(out.damage, "the count of jobs in "+path+": "+d)
		}
		if c.torn > 0 {
			l.log.Warn("the end of the count of jobs was cut off by a crash; what is left of it holds", "file", path, "bytes", c.torn)
			if err := os.Truncate(path, c.whole); err != nil && i == len(files)-1 {
				return found{}, nil, err
			}
		}
		l.size += c.whole
	}
	out.ids = t.ids()
	return out, files, nil
}

// begin opens the next file.
func (l *ledger) begin() error {
	next := ledgerFile{number: l.number + 1, kind: logFile}
	f, err := os.OpenFile(next.path(l.dir), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(appendHead(nil, logFile, 0)); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			return errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}
	l.file, l.number = f, next.number
	l.size += recordSize
	return nil
}

// add notes a group, to be written by flush.
func (l *ledger) add(group []waiter) {
	if l.file == nil {
		return
	}
	for i := range group {
		var kind recordKind
		switch group[i].entry.Kind {
		case engine.Accepted:
			kind = acceptedRecord
		case engine.Ended:
			kind = endedRecord
		case engine.Other:
			continue
		}
		if job, ok := parseID(group[i].entry.ID); ok {
			l.buf = appendRecord(l.buf, kind, job)
		} else if !l.odd {
			l.odd = true
			l.log.Error("a job is not counted, because its id is no ULID; nor are others, without another word", "id", group[i].entry.ID)
		}
	}
}

// flush writes what was noted.
func (l *ledger) flush() {
	if len(l.buf) == 0 || l.file == nil {
		return
	}
	_, err := l.file.Write(l.buf)
	if err != nil {
		l.giveUp(err)
		return
	}
	l.size += int64(len(l.buf))
	l.buf = l.buf[:0]
	l.tidy()
}

// tidy begins a new file and has the others compacted when they are too large.
func (l *ledger) tidy() {
	if l.compacting != nil {
		select {
		case c := <-l.compacting:
			l.compacted(c)
		default:
			return
		}
	}
	if l.size <= l.limit {
		return
	}
	old := l.number
	if err := l.begin(); err != nil {
		l.log.Error("the count of jobs cannot begin a new file and goes on in the old one", "error", err)
		l.limit = 2 * l.size
		return
	}
	l.compact(old)
}

// compact has all files up to number compacted, by a goroutine that ends by
// itself or when stop is closed, and that tidy, giveUp or close waits for.
func (l *ledger) compact(number uint64) {
	done, stop := make(chan compaction, 1), make(chan struct{})
	l.compacting, l.stop = done, stop
	before := l.size - recordSize // the new file has its head only
	go func() {
		size, err := compact(stop, l.dir, number)
		done <- compaction{size: size - before, err: err}
	}()
}

// compacted takes the end of a compaction. Its size is the change.
func (l *ledger) compacted(c compaction) {
	l.compacting = nil
	if c.err != nil {
		l.log.Error("the count of jobs could not be compacted and goes on growing", "error", c.err)
		l.limit = 2 * l.size
		return
	}
	l.size += c.size
	l.limit = max(smallLedger, growth*l.size)
}

// wait waits for a compaction that is under way.
func (l *ledger) wait() {
	if l.compacting != nil {
		l.compacted(<-l.compacting)
	}
}

// giveUp ends the count. An incomplete one would report jobs as vanished that
// have ended, so nothing is left of it: the next start begins a new one.
func (l *ledger) giveUp(cause error) {
	if l.compacting != nil {
		close(l.stop)
		<-l.compacting
		l.compacting = nil
	}
	errs := []error{l.file.Close()}
	l.file = nil
	files, stale, err := ledgerFiles(l.dir)
	errs = append(errs, err)
	for _, f := range slices.Backward(files) {
		errs = append(errs, os.Remove(f.path(l.dir)))
	}
	for _, path := range stale {
		errs = append(errs, os.Remove(path))
	}
	l.log.Error("jobs are not counted any more until the next start, because the count cannot be written; the jobs themselves are stored",
		"error", fmt.Errorf("%w (clearing it away: %w)", cause, errors.Join(errs...)))
}

// close makes the ledger durable and closes it.
func (l *ledger) close() error {
	l.flush()
	l.wait()
	if l.file == nil {
		return nil
	}
	return errors.Join(l.file.Sync(), l.file.Close())
}
