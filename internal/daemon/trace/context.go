package trace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
)

// ID is that of a trace. The zero value is none.
type ID [16]byte

// SpanID is that of a span. The zero value is none.
type SpanID [8]byte

// String gives id in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// String gives id in hexadecimal digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Context is what a traceparent says: in which trace and below which span
// something happens, and whether it is told of.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool
}

// traceparentSize is the length of a traceparent of version 00.
const traceparentSize = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse reads a traceparent as the W3C Trace Context has it. Of a version that is
// not known it reads what those to come promise to keep.
func Parse(s string) (c Context, ok bool) {
	if len(s) < traceparentSize || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	ok = digits(version[:], s[:2]) && digits(c.Trace[:], s[3:35]) && digits(c.Span[:], s[36:52]) && digits(flags[:], s[53:55])
	switch {
	case !ok, version[0] == 0xff, c.Trace == ID{}, c.Span == SpanID{}:
		return Context{}, false
	case len(s) > traceparentSize && (version[0] == 0 || s[traceparentSize] != '-'):
		return Context{}, false
	}
	c.Sampled = flags[0]&1 != 0
	return c, true
}

// digits reads small hexadecimal digits; capital ones are none here.
func digits(to []byte, s string) bool {
	for i := range to {
		high, low := digit(s[2*i]), digit(s[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// String gives c as a traceparent.
func (c Context) String() string {
	var b [traceparentSize]byte
	copy(b[:], "00-")
	hex.Encode(b[3:], c.Trace[:])
	b[35] = '-'
	hex.Encode(b[36:], c.Span[:])
	copy(b[52:], "-00")
	if c.Sampled {
		b[54] = '1'
	}
	return string(b[:])
}

// newSpanID makes an id that there is not yet in its trace. Nobody gains by guessing
// it, and it is made for each span.
func newSpanID() (id SpanID) {
	binary.BigEndian.PutUint64(id[:], mathrand.Uint64()|1)
	return id
}

func newID() (id ID) {
	rand.Read(id[:])
	return id
}

// jobSpan is the id of the span of a job, and the trace of one that has none of
// somebody else's. They follow from the job's id, so that no node has to ask another.
func jobSpan(id string) (own ID, span SpanID) {
	sum := sha256.Sum256([]byte(id))
	return ID(sum[:16]), SpanID(sum[16:24])
}

// sampler decides about traces that begin here, as the samplers of OpenTelemetry
// do: by the last bytes of their ids, so that all who are asked agree.
type sampler uint64

func newSampler(share float64) sampler {
	if share >= 1 {
		return 1 << 63
	}
	return sampler(share * (1 << 63))
}

func (s sampler) takes(id ID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < uint64(s) }
