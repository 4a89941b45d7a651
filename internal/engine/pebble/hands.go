package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hands is the file that records which messages of Jobs are handed out. A note is one
// write of 16 bytes that never crosses a page, so a killed process leaves either the old
// note or the new one; it reaches the disk a moment later.
//
//	slot  namespace (2), 2 zero, checksum (4), seq (8); all zero when it is free
type hands struct {
	mu    sync.Mutex
	file  vfs.File
	slots map[hand]int64 // offsets of the notes; guarded by mu
	free  []int64        // guarded by mu
	size  int64          // slots in the file; guarded by mu
	dirty bool           // changed since the last sync; guarded by mu
}

// hand identifies one message.
type hand struct {
	space space
	seq   uint64
}

const (
	slotSize   = 16
	firstSlots = 4096    // written at the start, so that a full disk does no harm
	mostSlots  = 1 << 22 // bounds what is read from a foreign file
)

func (h hand) encode() []byte {
	var b [slotSize]byte
	binary.BigEndian.PutUint16(b[:], uint16(h.space))
	binary.BigEndian.PutUint64(b[8:], h.seq)
	binary.BigEndian.PutUint32(b[4:], h.sum())
	return b[:]
}

func (h hand) sum() uint32 {
	var b [10]byte
	binary.BigEndian.PutUint64(b[2:], h.seq)
	binary.BigEndian.PutUint16(b[:], uint16(h.space))
	return crc32.Checksum(b[:], castagnoli)
}

func readHand(b []byte) (hand, bool) {
	h := hand{space(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint64(b[8:])}
	return h, h.seq > 0 && binary.BigEndian.Uint32(b[4:]) == h.sum()
}

// openHands reads what an earlier process has left. It keeps the notes for which stays
// returns true.
func openHands(f folder, stays func(hand) (bool, error)) (*hands, error) {
	old, err := f.read(handsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &hands{slots: map[hand]int64{}}
	for at := 0; at+slotSize <= min(len(old), mostSlots*slotSize); at += slotSize {
		note, ok := readHand(old[at : at+slotSize])
		if !ok {
			continue // free, or torn: then the message was not delivered
		}
		if ok, err = stays(note); err != nil {
			return nil, err
		}
		if ok {
			h.slots[note] = int64(len(h.slots))
		}
	}
	h.size = max(firstSlots, int64(len(h.slots)))
	text := make([]byte, h.size*slotSize)
	for note, at := range h.slots {
		copy(text[at*slotSize:], note.encode())
	}
	for at := h.size - 1; at >= int64(len(h.slots)); at-- {
		h.free = append(h.free, at)
	}
	if err := f.replace(handsFile, text); err != nil {
		return nil, err
	}
	h.file, err = f.fs.OpenReadWrite(f.path(handsFile), vfs.WriteCategoryUnspecified)
	return h, err
}

// had reports whether a message was handed out when the last process died, or is now.
func (h *hands) had(note hand) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.slots[note]
	return ok
}

// take records that a message is being handed out.
func (h *hands) take(note hand) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.slots[note]; ok {
		return nil
	}
	at := h.size
	if n := len(h.free); n > 0 {
		at, h.free = h.free[n-1], h.free[:n-1]
	} else {
		h.size++
	}
	if _, err := h.file.WriteAt(note.encode(), at*slotSize); err != nil {
		return err
	}
	h.slots[note] = at
	h.dirty = true
	return nil
}

// drop forgets a removed message; its slot may be reused.
func (h *hands) drop(note hand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.slots[note]; ok {
		delete(h.slots, note)
		h.free = append(h.free, at)
	}
}

// back records that a message was given back.
func (h *hands) back(note hand) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.slots[note]
	if !ok {
		return nil
	}
	delete(h.slots, note)
	h.free = append(h.free, at)
	h.dirty = true
	_, err := h.file.WriteAt(make([]byte, slotSize), at*slotSize)
	return err
}

// changed reports whether a note may not survive a loss of power.
func (h *hands) changed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirty
}

// sync makes the notes survive a loss of power.
func (h *hands) sync() error {
	h.mu.Lock()
	dirty := h.dirty
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	return h.file.SyncData()
}

func (h *hands) close() error {
	return errors.Join(h.sync(), h.file.Close())
}
