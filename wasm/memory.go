package wasm

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"
)

// page is the unit in which memories grow.
const page = 64 << 10

// keepFree is the largest buffer that a place keeps for its next instance, unless the module
// begins with more.
const keepFree = 1 << 20

// memory is the linear memory of the instances of one place, one after the other. Between
// two instances its buffer is kept, all zero. One goroutine at a time uses it.
type memory struct {
	buf     []byte // len is the size that the guest sees; all bytes beyond it are zero
	bound   int64  // the largest size
	size    int64  // the last size that the guest has seen, also after Free
	keep    int    // the largest buffer to keep
	refused int64  // the size that the guest asked for and did not get, or 0
	beside  int64  // what the guest has beside this memory, which counts too
}

var _ experimental.MemoryAllocator = (*memory)(nil)

// Allocate begins the memory of a new instance.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory {
	m.buf = m.buf[:0]
	return m
}

// Reallocate sets the size, or returns nil if it is beyond the bound.
func (m *memory) Reallocate(size uint64) []byte {
	if size+uint64(m.beside) > uint64(m.bound) {
		m.refused = int64(min(size, most32))
		return nil
	}
	if size > uint64(cap(m.buf)) {
		room := min(max(size, 2*uint64(cap(m.buf))), uint64(m.bound))
		if cap(m.buf) == 0 {
			room = size // most instances never grow
		}
		grown := make([]byte, size, room)
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf, m.size = m.buf[:size], int64(size)
	return m.buf
}

// Free ends the memory of an instance.
func (m *memory) Free() {
	if cap(m.buf) > m.keep {
		m.buf = nil
		return
	}
	clear(m.buf)
	m.buf = m.buf[:0]
}

// memoryError is the cause of the outcome memory.
type memoryError struct{ bound, asked int64 }

func (e *memoryError) Error() string {
	return fmt.Sprintf("the guest asked for %s of memory, more than its limit of %s, and ended without it", size(e.asked), size(e.bound))
}

// size returns a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
