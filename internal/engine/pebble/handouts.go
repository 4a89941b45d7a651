package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// handouts is the file that records which messages of Jobs are handed out. A note is one
// write of 16 bytes that never crosses a page, so a killed process leaves either the old
// note or the new one; it reaches the disk a moment later.
//
//	note  namespace (2), 2 zero, checksum (4), seq (8); all zero when it is free
type handouts struct {
	mu      sync.Mutex
	file    vfs.File
	offsets map[handout]int64 // offsets of the notes; guarded by mu
	free    []int64           // guarded by mu
	size    int64             // notes that have room in the file; guarded by mu
	dirty   bool              // changed since the last sync; guarded by mu
}

// handout identifies one message.
type handout struct {
	space space
	seq   uint64
}

const (
	handoutSize   = 16
	firstHandouts = 4096    // written at the start, so that a full disk does no harm
	mostHandouts  = 1 << 22 // bounds what is read from a foreign file
)

func (h handout) encode() []byte {
	var b [handoutSize]byte
	binary.BigEndian.PutUint16(b[:], uint16(h.space))
	binary.BigEndian.PutUint64(b[8:], h.seq)
	binary.BigEndian.PutUint32(b[4:], h.sum())
	return b[:]
}

func (h handout) sum() uint32 {
	var b [10]byte
	binary.BigEndian.PutUint64(b[2:], h.seq)
	binary.BigEndian.PutUint16(b[:], uint16(h.space))
	return crc32.Checksum(b[:], castagnoli)
}

func readHandout(b []byte) (handout, bool) {
	h := handout{space(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint64(b[8:])}
	return h, h.seq > 0 && binary.BigEndian.Uint32(b[4:]) == h.sum()
}

// openHandouts reads what an earlier process has left. It keeps the notes for which stays
// returns true.
func openHandouts(f folder, stays func(handout) (bool, error)) (*handouts, error) {
	old, err := f.read(handoutsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &handouts{offsets: map[handout]int64{}}
	for at := 0; at+handoutSize <= min(len(old), mostHandouts*handoutSize); at += handoutSize {
		note, ok := readHandout(old[at : at+handoutSize])
		if !ok {
			continue // free, or torn: then the message was not delivered
		}
		if ok, err = stays(note); err != nil {
			return nil, err
		}
		if ok {
			h.offsets[note] = int64(len(h.offsets))
		}
	}
	h.size = max(firstHandouts, int64(len(h.offsets)))
	text := make([]byte, h.size*handoutSize)
	for note, at := range h.offsets {
		copy(text[at*handoutSize:], note.encode())
	}
	for at := h.size - 1; at >= int64(len(h.offsets)); at-- {
		h.free = append(h.free, at)
	}
	if err := f.replace(handoutsFile, text); err != nil {
		return nil, err
	}
	h.file, err = f.fs.OpenReadWrite(f.path(handoutsFile), vfs.WriteCategoryUnspecified)
	return h, err
}

// had reports whether a message was handed out when the last process died, or is now.
func (h *handouts) had(note handout) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.offsets[note]
	return ok
}

// take records that a message is being handed out.
func (h *handouts) take(note handout) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.offsets[note]; ok {
		return nil
	}
	at := h.size
	if n := len(h.free); n > 0 {
		at, h.free = h.free[n-1], h.free[:n-1]
	} else {
		h.size++
	}
	if _, err := h.file.WriteAt(note.encode(), at*handoutSize); err != nil {
		return err
	}
	h.offsets[note] = at
	h.dirty = true
	return nil
}

// drop forgets a removed message; its note may be reused.
func (h *handouts) drop(note handout) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.offsets[note]; ok {
		delete(h.offsets, note)
		h.free = append(h.free, at)
	}
}

// back records that a message was given back.
func (h *handouts) back(note handout) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.offsets[note]
	if !ok {
		return nil
	}
	delete(h.offsets, note)
	h.free = append(h.free, at)
	h.dirty = true
	_, err := h.file.WriteAt(make([]byte, handoutSize), at*handoutSize)
	return err
}

// changed reports whether a note may not survive a loss of power.
func (h *handouts) changed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirty
}

// sync makes the notes survive a loss of power.
func (h *handouts) sync() error {
	h.mu.Lock()
	dirty := h.dirty
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	return h.file.SyncData()
}

func (h *handouts) close() error {
	return errors.Join(h.sync(), h.file.Close())
}
