package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hands is the file that says which messages of Jobs are in somebody's hands. A note
// is one write of 16 bytes that never crosses a page, so a process that is killed
// leaves the old one or the new one; it reaches the disk a moment later.
//
//	slot  namespace (2), 2 zero, checksum (4), seq (8); all zero when it is free
type hands struct {
	mu    sync.Mutex
	file  vfs.File
	slots map[hand]int64 // where each stands; +checklocks:mu
	free  []int64        // +checklocks:mu
	size  int64          // slots in the file; +checklocks:mu
	dirty bool           // something was noted since it was synced; +checklocks:mu
}

// hand is one message.
type hand struct {
	space space
	seq   uint64
}

const (
	slotSize   = 16
	firstSlots = 4096    // written at the start, so that a full disk is no harm
	mostSlots  = 1 << 22 // bounds what a foreign file can make us read
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

// openHands reads what an earlier process has left. stays says of which messages
// there is still something to know.
func openHands(f folder, stays func(hand) (bool, error)) (*hands, error) {
	old, err := f.read(handsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &hands{slots: map[hand]int64{}}
	for at := 0; at+slotSize <= min(len(old), mostSlots*slotSize); at += slotSize {
		note, ok := readHand(old[at : at+slotSize])
		if !ok {
			continue // free, or torn: then nobody has got it
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

// had reports whether a message was in somebody's hands when the last process died,
// or is since.
func (h *hands) had(note hand) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.slots[note]
	return ok
}

// take notes that a message is being given into somebody's hands.
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

// drop forgets a message that is there no more; its slot is written over by another.
func (h *hands) drop(note hand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.slots[note]; ok {
		delete(h.slots, note)
		h.free = append(h.free, at)
	}
}

// back notes that a message was given back.
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

// changed reports whether something was noted that may not survive a loss of power.
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
