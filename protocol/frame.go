package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Version is the protocol version that this package implements.
const Version = 1

// Sizes and limits of the protocol, in bytes.
const (
	HeaderSize   = 16
	DefaultFrame = 64 << 20 // longest body, unless HELLO specifies another limit
	ArenaMin     = 32 << 10 // payloads of at least this size use the arena
	MaxLogText   = 8192
	MaxChunk     = 1 << 20 // longest body of a CHUNK
	// MaxConcurrency is the maximum number of concurrent handlers; the shared page has this
	// many slots.
	MaxConcurrency = 960
)

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames, see SPEC.md section 4.
const (
	Hello    Kind = 1
	Task     Kind = 2
	Result   Kind = 3
	Error    Kind = 4
	Returned Kind = 5
	Cancel   Kind = 6
	Started  Kind = 7
	Progress Kind = 8
	Log      Kind = 9
	Ping     Kind = 10
	Drain    Kind = 11
	Chunk    Kind = 12
)

var kindNames = [...]string{
	Hello: "HELLO", Task: "TASK", Result: "RESULT", Error: "ERROR", Returned: "RETURNED", Cancel: "CANCEL",
	Started: "STARTED", Progress: "PROGRESS", Log: "LOG", Ping: "PING", Drain: "DRAIN", Chunk: "CHUNK",
}

// String returns the name of k as SPEC.md writes it.
func (k Kind) String() string {
	if k.Known() {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Known reports whether this version defines k.
func (k Kind) Known() bool { return k >= Hello && k <= Chunk }

// Flags of a frame, see SPEC.md section 3.
const (
	Arena   uint8 = 0x01
	Meta    uint8 = 0x02
	Timeout uint8 = 0x04
	Ack     uint8 = 0x08
	Final   uint8 = 0x10
)

// Reasons of CANCEL and of the page's "reason".
const (
	ReasonTimeout  = 3
	ReasonCanceled = 4
)

// LevelZero is added to a slog level to give the code of a LOG.
const LevelZero = 32768

// Header is the fixed-size start of a frame.
type Header struct {
	Length uint32 // bytes in the body
	Kind   Kind
	Flags  uint8
	Code   uint16
	ID     uint32
	Aux    uint32
}

// String returns the header as text, for logs and test failures.
func (h Header) String() string {
	return fmt.Sprintf("%s length=%d flags=%#02x code=%d id=%d aux=%d", h.Kind, h.Length, h.Flags, h.Code, h.ID, h.Aux)
}

// AppendHeader appends the 16 bytes of h to b.
func AppendHeader(b []byte, h Header) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.Length)
	b = append(b, byte(h.Kind), h.Flags)
	b = binary.LittleEndian.AppendUint16(b, h.Code)
	b = binary.LittleEndian.AppendUint32(b, h.ID)
	return binary.LittleEndian.AppendUint32(b, h.Aux)
}

// AppendFrame appends h, with Length set to len(body), and body.
func AppendFrame(b []byte, h Header, body []byte) []byte {
	h.Length = uint32(len(body))
	return append(AppendHeader(b, h), body...)
}

// ParseHeader reads the header at the start of b, which must hold HeaderSize bytes.
func ParseHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		Length: binary.LittleEndian.Uint32(b),
		Kind:   Kind(b[4]),
		Flags:  b[5],
		Code:   binary.LittleEndian.Uint16(b[6:]),
		ID:     binary.LittleEndian.Uint32(b[8:]),
		Aux:    binary.LittleEndian.Uint32(b[12:]),
	}
}

// Before reports whether task number a is before b. Numbers wrap around.
func Before(a, b uint32) bool { return int32(b-a) > 0 }

// Next returns the task number after id. It is never 0.
func Next(id uint32) uint32 {
	if id == math.MaxUint32 {
		return 1
	}
	return id + 1
}

// Micros converts a run time or limit to microseconds, rounded up. If it does not fit, ok
// is false and n is the largest number that does.
func Micros(d time.Duration) (n uint32, ok bool) {
	if d <= 0 {
		return 0, true
	}
	us := (d-1)/time.Microsecond + 1
	if us > math.MaxUint32 {
		return math.MaxUint32, false
	}
	return uint32(us), true
}

// InvalidError is a violation of the protocol by the peer. It ends the session.
type InvalidError struct{ Fault string }

// Error returns the fault on one line.
func (e *InvalidError) Error() string { return "protocol: " + e.Fault }

// Invalidf makes an [*InvalidError].
func Invalidf(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// Split returns the first frame of b and its length n. If b does not hold a complete frame,
// n is 0 and need is the length of the frame as far as known. A frame of an unknown kind,
// or with a body longer than limit, gives an [*InvalidError].
func Split(b []byte, limit uint32) (h Header, body []byte, n, need int, err error) {
	if len(b) < HeaderSize {
		return h, nil, 0, HeaderSize, nil
	}
	h = ParseHeader(b)
	if !h.Kind.Known() {
		return h, nil, 0, 0, Invalidf("frame of unknown %v", h.Kind)
	}
	if h.Length > limit {
		return h, nil, 0, 0, Invalidf("%v frame of %d bytes; the bound is %d", h.Kind, h.Length, limit)
	}
	need = HeaderSize + int(h.Length)
	if len(b) < need {
		return h, nil, 0, need, nil
	}
	return h, b[HeaderSize:need:need], need, need, nil
}
