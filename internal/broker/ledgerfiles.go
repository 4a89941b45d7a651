package broker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ledgerFile is one file of the ledger. A snapshot with number n stands for all
// files with numbers up to n.
type ledgerFile struct {
	number uint64
	kind   fileKind
	size   int64
}

const (
	logSuffix      = ".log"
	snapshotSuffix = ".snap"
	newSuffix      = ".new" // a file that was not finished
)

func (f ledgerFile) path(dir string) string {
	suffix := logSuffix
	if f.kind == snapshotFile {
		suffix = snapshotSuffix
	}
	return filepath.Join(dir, fmt.Sprintf("%012d%s", f.number, suffix))
}

// ledgerFiles returns the files that count, in order, and the paths of those
// that do not count any more.
func ledgerFiles(dir string) (files []ledgerFile, stale []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var base uint64
	for _, e := range entries {
		f := ledgerFile{kind: logFile}
		digits, is := strings.CutSuffix(e.Name(), logSuffix)
		if !is {
			f.kind = snapshotFile
			digits, is = strings.CutSuffix(e.Name(), snapshotSuffix)
		}
		if strings.HasSuffix(e.Name(), newSuffix) {
			stale = append(stale, filepath.Join(dir, e.Name()))
		}
		if f.number, err = strconv.ParseUint(digits, 10, 64); !is || err != nil {
			continue // no file of ours
		}
		info, err := e.Info()
		if err != nil {
			return nil, nil, err
		}
		f.size = info.Size()
		files = append(files, f)
		if f.kind == snapshotFile {
			base = max(base, f.number)
		}
	}
	files = slices.DeleteFunc(files, func(f ledgerFile) bool {
		old := f.number < base || f.number == base && f.kind == logFile
		if old {
			stale = append(stale, f.path(dir))
		}
		return old
	})
	slices.SortFunc(files, func(a, b ledgerFile) int { return cmp.Compare(a.number, b.number) })
	return files, stale, nil
}

// missing says which files should be there and are not.
func missing(files []ledgerFile) []string {
	var out []string
	next := uint64(1)
	for _, f := range files {
		if f.kind == logFile && f.number != next {
			out = append(out, fmt.Sprintf("the count of jobs lacks its files %d to %d", next, f.number-1))
		}
		next = f.number + 1
	}
	return out
}

// readFile gives the records of one file to t.
func readFile(path string, t *tally) (content, error) {
	f, err := os.Open(path)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	return readRecords(f, t.add)
}

// chunk is how many bytes of a snapshot go to the disk at once, so that those
// who wait for the disk meanwhile wait little longer.
const chunk = 1 << 20

var errStopped = errors.New("it was stopped")

func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// compact writes a snapshot that stands for all files up to number, removes
// these, and returns the size of the snapshot. Closing stop ends it early.
func compact(stop <-chan struct{}, dir string, number uint64) (int64, error) {
	files, _, err := ledgerFiles(dir)
	if err != nil {
		return 0, err
	}
	files = slices.DeleteFunc(files, func(f ledgerFile) bool { return f.number > number })
	t := newTally(0)
	for _, f := range files {
		if stopped(stop) {
			return 0, errStopped
		}
		if _, err := readFile(f.path(dir), t); err != nil {
			return 0, err
		}
	}
	snapshot := ledgerFile{number: number, kind: snapshotFile}
	size, err := writeSnapshot(stop, snapshot.path(dir), t)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		_ = os.Remove(f.path(dir)) // one that stays is removed at the next start
	}
	return size, nil
}

// writeSnapshot writes the state of t to path, in one step.
func writeSnapshot(stop <-chan struct{}, path string, t *tally) (int64, error) {
	t.forget()
	open := t.ids()
	f, err := os.OpenFile(path+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, 0, chunk+recordSize)
	b = appendHead(b, snapshotFile, len(open)+len(t.early))
	var size int64
	flush := func() error {
		size += int64(len(b))
		if _, err := f.Write(b); err != nil {
			return err
		}
		b = b[:0]
		if stopped(stop) {
			return errStopped
		}
		return f.Sync()
	}
	put := func(kind recordKind, i id) error {
		if b = appendRecord(b, kind, i); len(b) < chunk {
			return nil
		}
		return flush()
	}
	for _, i := range open {
		if err := put(acceptedRecord, i); err != nil {
			return 0, err
		}
	}
	for i := range t.early {
		if err := put(endedRecord, i); err != nil {
			return 0, err
		}
	}
	if err := flush(); err != nil {
		return 0, err
	}
	return size, moveFile(path+newSuffix, path)
}
