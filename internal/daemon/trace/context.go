package trace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
)

// ID is the id of a trace. The zero value is none.
type ID [16]byte

// SpanID is the id of a span. The zero value is none.
type SpanID [8]byte

// String returns id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// String returns id in hexadecimal.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Context is the content of a traceparent: the trace, the parent span, and whether
// the trace is sampled.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool
}

// traceparentSize is the length of a traceparent of version 00.
const traceparentSize = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse parses a traceparent of the W3C Trace Context. In later versions it reads
// only the part that they promise to keep.
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

// digits decodes lower-case hexadecimal digits; upper-case ones are not allowed.
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

// String returns c as a traceparent.
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

// newSpanID returns a random id. It need not be unpredictable, but must be fast,
// because every span needs one.
func newSpanID() (id SpanID) {
	binary.BigEndian.PutUint64(id[:], mathrand.Uint64()|1)
	return id
}

func newID() (id ID) {
	rand.Read(id[:])
	return id
}

// jobSpan returns the id of a job's span, and the id of its trace if it has no trace
// from a caller. Both are derived from the job's id, so that all nodes agree on them.
func jobSpan(id string) (own ID, span SpanID) {
	sum := sha256.Sum256([]byte(id))
	return ID(sum[:16]), SpanID(sum[16:24])
}

// sampler decides whether traces that begin here are sampled. Like the samplers of
// OpenTelemetry it uses the last bytes of the id, so that all participants agree.
type sampler uint64

func newSampler(share float64) sampler {
	if share >= 1 {
		return 1 << 63
	}
	return sampler(share * (1 << 63))
}

func (s sampler) takes(id ID) bool { return binary.BigEndian.Uint64(id[8:])>>1 < uint64(s) }
