package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"
)

// PageSize is the size of the shared page, in bytes.
const PageSize = 4096

// PageMagic is the first word of the page.
const PageMagic = 0x31504C42

// Page is the shared page of SPEC.md section 6.1, in mapped memory. Every word has one
// writer. All loads and stores are sequentially consistent, which provides the barrier that
// the specification requires.
type Page struct {
	magic    uint32
	_        [15]uint32
	started  uint32 // offset 64, a cache line written only by the worker
	finished uint32
	_        [14]uint32
	recall   uint32 // offset 128, a cache line written only by the host
	asked    uint32
	reason   uint32
	_        uint32
	freed    uint64 // offset 144
	_        [26]uint32
	running  [MaxConcurrency]uint32 // offset 256
}

// NewPage returns the page at the start of memory, which must be mapped, aligned to 8 bytes
// and at least PageSize long. Hosts call Init on it.
func NewPage(memory []byte) (*Page, error) {
	if len(memory) < PageSize {
		return nil, fmt.Errorf("protocol: shared memory of %d bytes has no room for the page of %d", len(memory), PageSize)
	}
	at := unsafe.Pointer(unsafe.SliceData(memory))
	if uintptr(at)%8 != 0 {
		return nil, errors.New("protocol: shared memory is not aligned to 8 bytes")
	}
	return (*Page)(at), nil
}

// Init marks the page as one of this protocol.
func (p *Page) Init() { atomic.StoreUint32(&p.magic, PageMagic) }

// Valid reports whether a host has initialized the page.
func (p *Page) Valid() bool { return atomic.LoadUint32(&p.magic) == PageMagic }

// Begin is called by a worker with concurrency 1 before a handler. It announces the start
// of id and reports whether id may start. If not, id was recalled and counts as finished.
func (p *Page) Begin(id uint32) bool {
	atomic.StoreUint32(&p.started, id)
	if p.recalled(id) {
		atomic.StoreUint32(&p.finished, id)
		return false
	}
	return true
}

// End is called by a worker with concurrency 1 after a handler.
func (p *Page) End(id uint32) { atomic.StoreUint32(&p.finished, id) }

// BeginAt is Begin for a worker with several handlers at a time. k is a free slot.
func (p *Page) BeginAt(k int, id uint32) bool {
	atomic.StoreUint32(&p.running[k], id)
	atomic.StoreUint32(&p.started, id)
	if p.recalled(id) {
		atomic.StoreUint32(&p.running[k], 0)
		return false
	}
	return true
}

// EndAt is End for slot k.
func (p *Page) EndAt(k int) { atomic.StoreUint32(&p.running[k], 0) }

func (p *Page) recalled(id uint32) bool {
	r := atomic.LoadUint32(&p.recall)
	return r != 0 && !Before(id, r)
}

// Started returns the number of the task that was last given to a handler.
func (p *Page) Started() uint32 { return atomic.LoadUint32(&p.started) }

// Finished returns the number of the task whose handler has last returned.
func (p *Page) Finished() uint32 { return atomic.LoadUint32(&p.finished) }

// RunningAt returns the number of the task that runs in slot k, or 0.
func (p *Page) RunningAt(k int) uint32 { return atomic.LoadUint32(&p.running[k]) }

// Recall is called by the host to take back the tasks from number first on. It returns the
// number of the task that started last: later ones will not run.
func (p *Page) Recall(first uint32) (started uint32) {
	atomic.StoreUint32(&p.recall, first)
	return atomic.LoadUint32(&p.started)
}

// EndRecall lets tasks start again.
func (p *Page) EndRecall() { atomic.StoreUint32(&p.recall, 0) }

// Ask is called by the host to ask task id to end. reason is one of CANCEL.
func (p *Page) Ask(id uint32, reason uint32) {
	atomic.StoreUint32(&p.reason, reason)
	atomic.StoreUint32(&p.asked, id)
}

// Asked returns the task that was asked to end, or 0, and the reason.
func (p *Page) Asked() (id, reason uint32) {
	id = atomic.LoadUint32(&p.asked)
	return id, atomic.LoadUint32(&p.reason)
}

// Freed returns how many bytes of the reply part the host has freed.
func (p *Page) Freed() uint64 { return atomic.LoadUint64(&p.freed) }

// Free is called by the host after copying a reply.
func (p *Page) Free(taken uint64) { atomic.StoreUint64(&p.freed, taken) }

// Reference is the location of a payload in shared memory.
type Reference struct {
	Offset, Length uint64
	// Taken is the worker's count after this reply. Only RESULT contains it.
	Taken uint64
}

// Sizes of an encoded Reference, in bytes.
const (
	RequestReference = 16
	ReplyReference   = 24
)

// AppendRequest appends r in the form of TASK.
func (r Reference) AppendRequest(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.Offset)
	return binary.LittleEndian.AppendUint64(b, r.Length)
}

// AppendReply appends r in the form of RESULT.
func (r Reference) AppendReply(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(r.AppendRequest(b), r.Taken)
}

// ParseRequest reads the reference of a TASK.
func ParseRequest(b []byte) (Reference, error) {
	if len(b) != RequestReference {
		return Reference{}, Invalidf("an arena reference of %d bytes in TASK; it has %d", len(b), RequestReference)
	}
	return Reference{Offset: binary.LittleEndian.Uint64(b), Length: binary.LittleEndian.Uint64(b[8:])}, nil
}

// ParseReply reads the reference of a RESULT.
func ParseReply(b []byte) (Reference, error) {
	if len(b) != ReplyReference {
		return Reference{}, Invalidf("an arena reference of %d bytes in RESULT; it has %d", len(b), ReplyReference)
	}
	r, err := ParseRequest(b[:RequestReference])
	r.Taken = binary.LittleEndian.Uint64(b[RequestReference:])
	return r, err
}

// Part is one part of the arena.
type Part struct{ Offset, Length uint64 }

// Slice returns the bytes of memory that r refers to. They must lie in the part.
func (p Part) Slice(memory []byte, r Reference) ([]byte, error) {
	size := uint64(len(memory))
	if r.Offset < p.Offset || r.Length > p.Length || r.Offset-p.Offset > p.Length-r.Length ||
		p.Offset > size || p.Length > size-p.Offset {
		return nil, Invalidf("an arena reference to %d bytes at %d lies outside its part (%d bytes at %d)",
			r.Length, r.Offset, p.Length, p.Offset)
	}
	return memory[r.Offset : r.Offset+r.Length : r.Offset+r.Length], nil
}

// ParsePart reads a HELLO value "OFFSET LENGTH".
func ParsePart(value string) (Part, error) {
	offset, length, _ := strings.Cut(value, " ")
	o, err := ParseNumber("offset", offset)
	if err != nil {
		return Part{}, Invalidf("%q is not OFFSET LENGTH", value)
	}
	n, err := ParseNumber("length", length)
	if err != nil {
		return Part{}, Invalidf("%q is not OFFSET LENGTH", value)
	}
	return Part{o, n}, nil
}

// String returns the part in the form of HELLO.
func (p Part) String() string { return fmt.Sprintf("%d %d", p.Offset, p.Length) }

// Ring is the worker's side of the reply part.
type Ring struct {
	Part  Part
	Taken uint64
}

// Reserve finds room for n bytes, given how many the host has freed. It returns false if
// there is no room and the payload must be part of the frame.
func (r *Ring) Reserve(n int, freed uint64) (Reference, bool) {
	length := r.Part.Length
	if length == 0 || n == 0 {
		return Reference{}, false
	}
	taken := r.Taken
	if freed == taken {
		taken = (taken + length - 1) / length * length
		// Everything is free, so the skipped bytes cost nothing.
		freed = taken
	}
	size := (uint64(n) + 63) &^ 63
	if size > length {
		return Reference{}, false
	}
	if at := taken % length; at+size > length {
		taken += length - at
	}
	if taken+size-freed > length {
		return Reference{}, false
	}
	r.Taken = taken + size
	return Reference{Offset: r.Part.Offset + taken%length, Length: uint64(n), Taken: r.Taken}, true
}
