package wasmcode

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// reader reads numbers and bytes. After the first error it returns zeros, and err keeps
// what was wrong first.
type reader struct {
	buf []byte
	pos int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// malformed says what is wrong at the reader's position.
func (r *reader) malformed(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

func (r *reader) unsupported(feature string) { r.fail(&UnsupportedError{feature}) }

func (r *reader) tooLarge(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
	}
}

// more reports that there is something left and nothing was wrong.
func (r *reader) more() bool { return r.err == nil && r.pos < len(r.buf) }

// byte reads one byte.
func (r *reader) byte() byte {
	if !r.more() {
		r.malformed("it ends too early")
		return 0
	}
	r.pos++
	return r.buf[r.pos-1]
}

// bytes reads n bytes, without a copy.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || int64(n) > int64(len(r.buf)-r.pos) {
		r.malformed("it ends too early")
		return nil
	}
	r.pos += int(n)
	return r.buf[r.pos-int(n) : r.pos : r.pos]
}

// u32 reads an unsigned number.
func (r *reader) u32() uint32 {
	if r.more() && r.buf[r.pos] < 0x80 { // most are short
		r.pos++
		return uint32(r.buf[r.pos-1])
	}
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.malformed("a number has more than 32 bits")
	return 0
}

// signed reads a signed number of at most that many bits.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if left := bits - shift; left < 7 { // the bits above the number must be copies of its sign
			if high := int8(b<<1) >> left; high != 0 && high != -1 {
				break
			}
		}
		if b&0x40 != 0 && shift+7 < 64 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	r.malformed("a number has more than %d bits", bits)
	return 0
}

// name reads a text.
func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.malformed("a name is not UTF-8")
	}
	return string(b)
}

// count reads how many entries follow, at most so many.
func (r *reader) count(most uint32, what string) uint32 {
	n := r.u32()
	if n > most {
		r.tooLarge("%d %s, more than %d", n, what, most)
		return 0
	}
	return n
}

// index reads an index that must be below n.
func (r *reader) index(n int, what string) uint32 {
	i := r.u32()
	if int64(i) >= int64(n) {
		r.malformed("%s %d does not exist", what, i)
		return 0
	}
	return i
}

// zero reads the number of the only memory there is.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.unsupported("multiple memories")
	}
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

// appendS32 appends a signed number.
func appendS32(b []byte, v int32) []byte { return appendS64(b, int64(v)) }

func appendS64(b []byte, v int64) []byte {
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && low&0x40 == 0) || (v == -1 && low&0x40 != 0) {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	b = appendU32(b, uint32(len(s)))
	return append(b, s...)
}
