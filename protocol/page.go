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

// PageMagic stands at the start of the page.
const PageMagic = 0x31504C42

// Page is the shared page of SPEC.md section 6.1, a view of mapped memory.
// Every word has one writer; all loads and stores are sequentially consistent,
// which gives the barrier that the text asks for.
type Page struct {
	magic    uint32
	_        [15]uint32
	started  uint32 // offset 64, a cache line that only the worker writes
	finished uint32
	_        [14]uint32
	recall   uint32 // offset 128, a cache line that only the host writes
	asked    uint32
	reason   uint32
	_        uint32
	freed    uint64 // offset 144
	_        [26]uint32
	running  [MaxConcurrency]uint32 // offset 256
}

// NewPage returns the page at the start of memory, which must be mapped, aligned
// to 8 bytes and at least PageSize long. Hosts call Init on it.
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

// Valid reports whether the page was marked by a host.
func (p *Page) Valid() bool { return atomic.LoadUint32(&p.magic) == PageMagic }

// Begin is the worker's step before a handler, with concurrency 1: it says that
// id starts, and reports whether id may start. When it may not, it was
// recalled and counts as finished.
func (p *Page) Begin(id uint32) bool {
	atomic.StoreUint32(&p.started, id)
	if p.recalled(id) {
		atomic.StoreUint32(&p.finished, id)
		return false
	}
	return true
}

// End is the worker's step after a handler, with concurrency 1.
func (p *Page) End(id uint32) { atomic.StoreUint32(&p.finished, id) }

// BeginAt is Begin for a worker with several handlers at a time; k is a place
// that is free.
func (p *Page) BeginAt(k int, id uint32) bool {
	atomic.StoreUint32(&p.running[k], id)
	atomic.StoreUint32(&p.started, id)
	if p.recalled(id) {
		atomic.StoreUint32(&p.running[k], 0)
		return false
	}
	return true
}

// EndAt is End for place k.
func (p *Page) EndAt(k int) { atomic.StoreUint32(&p.running[k], 0) }

func (p *Page) recalled(id uint32) bool {
	r := atomic.LoadUint32(&p.recall)
	return r != 0 && !Before(id, r)
}

// Started returns the number of the task last given to a handler.
func (p *Page) Started() uint32 { return atomic.LoadUint32(&p.started) }

// Finished returns the number of the task whose handler last returned.
func (p *Page) Finished() uint32 { return atomic.LoadUint32(&p.finished) }

// RunningAt returns the task that runs in place k, 0 for none.
func (p *Page) RunningAt(k int) uint32 { return atomic.LoadUint32(&p.running[k]) }

// Recall is the host's step to take tasks back, from number first on. It returns
// the number last started: those after it will not run.
func (p *Page) Recall(first uint32) (started uint32) {
	atomic.StoreUint32(&p.recall, first)
	return atomic.LoadUint32(&p.started)
}

// EndRecall lets tasks start again.
func (p *Page) EndRecall() { atomic.StoreUint32(&p.recall, 0) }

// Ask is the host's request that task id ends, for a reason of CANCEL.
func (p *Page) Ask(id uint32, reason uint32) {
	atomic.StoreUint32(&p.reason, reason)
	atomic.StoreUint32(&p.asked, id)
}

// Asked returns the task that is asked to end, 0 for none, and why.
func (p *Page) Asked() (id, reason uint32) {
	id = atomic.LoadUint32(&p.asked)
	return id, atomic.LoadUint32(&p.reason)
}

// Freed returns how many bytes of the reply part the host has given back.
func (p *Page) Freed() uint64 { return atomic.LoadUint64(&p.freed) }

// Free is the host's step after it has copied a reply out.
func (p *Page) Free(taken uint64) { atomic.StoreUint64(&p.freed, taken) }

// Reference says where a payload stands in shared memory.
type Reference struct {
	Offset, Length uint64
	// Taken is the worker's count after this reply; it travels in RESULT only.
	Taken uint64
}

// Sizes of an encoded Reference, in bytes.
const (
	RequestReference = 16
	ReplyReference   = 24
)

// AppendRequest appends r as TASK has it.
func (r Reference) AppendRequest(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.Offset)
	return binary.LittleEndian.AppendUint64(b, r.Length)
}

// AppendReply appends r as RESULT has it.
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

// Slice returns the bytes of memory that r names, which must lie in the part.
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

// String gives the part as HELLO has it.
func (p Part) String() string { return fmt.Sprintf("%d %d", p.Offset, p.Length) }

// Ring is the worker's side of the reply part.
type Ring struct {
	Part  Part
	Taken uint64
}

// Place finds room for n bytes, given how much the host has freed. It returns
// the reference and true, or false when the payload must travel in its frame.
func (r *Ring) Place(n int, freed uint64) (Reference, bool) {
	length := r.Part.Length
	if length == 0 || n == 0 {
		return Reference{}, false
	}
	taken := r.Taken
	if freed == taken {
		taken = (taken + length - 1) / length * length
		// The jump gives nothing away: what it skips is free already.
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
