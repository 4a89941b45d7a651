package wasm

import (
	"bytes"
	"testing"
)

func zero(b []byte) bool { return bytes.Count(b, []byte{0}) == len(b) }

func TestMemoryIsZeroForEachInstance(t *testing.T) {
	t.Parallel()
	m := &memory{bound: 8 * page, keep: 4 * page}
	for round := range 3 {
		l := m.Allocate(0, 0)
		b := l.Reallocate(2 * page)
		if len(b) != 2*page || !zero(b) {
			t.Fatalf("round %d: the memory begins with %d bytes, zero: %v", round, len(b), zero(b))
		}
		for i := range b {
			b[i] = 1
		}
		b = l.Reallocate(3 * page)
		if len(b) != 3*page || b[2*page-1] != 1 || !zero(b[2*page:]) {
			t.Fatalf("round %d: what has grown is not zero, or what was there is gone", round)
		}
		b[len(b)-1] = 1
		l.Free()
		if cap(m.buf) == 0 {
			t.Error("a small buffer is not kept")
		}
	}
	l := m.Allocate(0, 0)
	if l.Reallocate(9*page) != nil || m.refused != 9*page {
		t.Errorf("memory beyond the bound was given; refused is %d", m.refused)
	}
	if b := l.Reallocate(8 * page); len(b) != 8*page {
		t.Errorf("memory within the bound has %d bytes", len(b))
	}
	l.Free()
	if cap(m.buf) > m.keep {
		t.Errorf("a buffer of %d bytes is kept", cap(m.buf))
	}
}
