package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// synced is the file that records how far logs and manifests were synced, with a checksum
// of everything up to there. Without it Pebble takes damage near the end of a file for
// the effect of a crash, if the store was not closed in order. A note is one write that
// never crosses a page and is not synced. It survives the death of the process; after a
// loss of power an older note may remain, which covers less.
//
//	note  checksum of the rest (4), checksum of the file (4), length (8), name (16)
type synced struct {
	mu   sync.Mutex
	file vfs.File
}

const (
	noteSize = 32
	// mostNotes exceeds the number of logs and manifests at any time.
	mostNotes = 64
)

// note is what is recorded of a file.
type note struct {
	name   string
	length int64
	sum    uint32
}

func (n note) encode() []byte {
	b := make([]byte, noteSize)
	binary.BigEndian.PutUint32(b[4:], n.sum)
	binary.BigEndian.PutUint64(b[8:], uint64(n.length))
	copy(b[16:], n.name)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func readNote(b []byte) (note, bool) {
	n := note{
		name: strings.TrimRight(string(b[16:noteSize]), "\x00"), length: int64(binary.BigEndian.Uint64(b[8:])),
		sum: binary.BigEndian.Uint32(b[4:]),
	}
	return n, n.name != "" && n.length >= 0 && binary.BigEndian.Uint32(b) == crc32.Checksum(b[4:noteSize], castagnoli)
}

// noteAt returns the index of a file's note; ok is false if the file has none.
func noteAt(name string) (at int64, ok bool) {
	var n int64
	if _, err := fmt.Sscanf(name, "MANIFEST-%d", &n); err != nil {
		if _, err := fmt.Sscanf(name, "%d.log", &n); err != nil {
			return 0, false
		}
	}
	return n % mostNotes, len(name) <= noteSize-16
}

// checkSynced compares logs and manifests with their notes.
func (f folder) checkSynced() error {
	all, err := f.read(syncedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.explain(err)
	}
	for ; len(all) >= noteSize; all = all[noteSize:] {
		n, ok := readNote(all[:noteSize])
		if !ok {
			continue // none, or a torn one
		}
		if _, ok := noteAt(n.name); !ok {
			continue
		}
		if err := f.data().checkNote(n); err != nil {
			return err
		}
	}
	return nil
}

func (f folder) checkNote(n note) error {
	file, err := f.fs.Open(f.path(n.name), vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the file was no longer needed
	}
	if err != nil {
		return f.explain(err)
	}
	defer file.Close()
	sum := crc32.New(castagnoli)
	got, err := io.Copy(sum, io.LimitReader(file, n.length))
	if err != nil {
		return f.explain(err)
	}
	if got != n.length || sum.Sum32() != n.sum {
		return damaged(f.path(n.name), errors.New("it differs from what was synced"))
	}
	return nil
}

// openSynced creates the file anew; its old notes were compared before.
func (f folder) openSynced() (*synced, error) {
	file, err := f.fs.Create(f.path(syncedFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, f.explain(err)
	}
	if _, err := file.WriteAt(make([]byte, mostNotes*noteSize), 0); err != nil {
		return nil, errors.Join(f.explain(err), file.Close())
	}
	return &synced{file: file}, nil
}

func (s *synced) set(at int64, n note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.file.WriteAt(n.encode(), at*noteSize)
	return err
}

// noted is a log or a manifest, which is written sequentially from the start.
type noted struct {
	haltFile

	at int64

	mu   sync.Mutex
	note note // of what was written; guarded by mu
}

// Write appends to the file.
func (f *noted) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Before the write: a file system may change b, and does so in tests.
	sum := crc32.Update(f.note.sum, castagnoli, b)
	n, err := f.haltFile.Write(b) // writes all of b, or does not return
	f.note.length += int64(n)
	f.note.sum = sum
	return n, err
}

// Sync syncs what was written before and updates the note.
func (f *noted) Sync() error { return f.sync(f.haltFile.Sync) }

// SyncData is like Sync, without the metadata of the file.
func (f *noted) SyncData() error { return f.sync(f.haltFile.SyncData) }

func (f *noted) sync(sync func() error) error {
	f.mu.Lock()
	n := f.note
	f.mu.Unlock()
	if err := sync(); err != nil {
		return err
	}
	f.of.change("note", f.name, func() error { return f.of.engine.synced.set(f.at, n) })
	return nil
}
