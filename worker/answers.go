package worker

import (
	"fmt"
	"io"
	"sync"

	"github.com/bullpen-run/bullpen/protocol"
)

const (
	flushSize = 64 << 10 // pending answers of this size are written
	keepSize  = 1 << 20  // larger buffers are not kept
	// fullSize bounds the pending answers during a write. Beyond it, add waits for the host
	// to read.
	fullSize = 4 << 20
)

// writeError means that the host can no longer be reached.
type writeError struct{ err error }

func (e *writeError) Error() string { return fmt.Sprintf("worker: write to the host: %v", e.err) }
func (e *writeError) Unwrap() error { return e.err }

// answers collects the frames for the host; one goroutine writes them for all. All methods
// are safe for concurrent use.
type answers struct {
	out io.Writer

	mu      sync.Mutex
	changed sync.Cond     // a write has ended; its lock is mu
	broken  chan struct{} // closed at the first write error
	// pending has the frames that are not written yet; guarded by mu.
	pending []byte
	spare   []byte // the buffer of the last write; guarded by mu
	writing bool   // a goroutine writes, and will also write the rest; guarded by mu
	err     error  // the first write error; all later frames are dropped; guarded by mu

	memory []byte
	page   *protocol.Page
	ring   protocol.Ring // guarded by mu
}

func newAnswers(out io.Writer) *answers {
	a := &answers{out: out, pending: make([]byte, 0, 2*flushSize), spare: make([]byte, 0, 2*flushSize), broken: make(chan struct{})}
	a.changed.L = &a.mu
	return a
}

// lock locks mu with room for one more frame.
func (a *answers) lock() {
	a.mu.Lock()
	for a.writing && len(a.pending) >= fullSize {
		a.changed.Wait()
	}
}

// add appends one frame and returns how many bytes are pending.
func (a *answers) add(h protocol.Header, body []byte) int {
	a.lock()
	a.pending = protocol.AppendFrame(a.pending, h, body)
	n := len(a.pending)
	a.mu.Unlock()
	return n
}

// addHello appends the worker's first frame.
func (a *answers) addHello(h protocol.WorkerHello) {
	a.lock()
	a.pending = h.Append(a.pending)
	a.mu.Unlock()
}

// addText is add for a body that is a string.
func (a *answers) addText(h protocol.Header, body string) {
	h.Length = uint32(len(body))
	a.lock()
	a.pending = append(protocol.AppendHeader(a.pending, h), body...)
	a.mu.Unlock()
}

// addResult appends a RESULT. It uses the arena if the payload is large enough and fits.
func (a *answers) addResult(h protocol.Header, payload []byte) int {
	if len(payload) < protocol.ArenaMin || a.memory == nil {
		return a.add(h, payload)
	}
	a.lock()
	defer a.mu.Unlock()
	// The lock is held while copying, because the host expects the references in the order
	// of the ring.
	if r, ok := a.ring.Reserve(len(payload), a.page.Freed()); ok {
		copy(a.memory[r.Offset:], payload)
		h.Flags |= protocol.Arena
		var body [protocol.ReplyReference]byte
		payload = r.AppendReply(body[:0])
	}
	a.pending = protocol.AppendFrame(a.pending, h, payload)
	return len(a.pending)
}

// flush writes the pending frames. If another goroutine is writing, it returns immediately,
// because that one will write them too.
func (a *answers) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing {
		return a.err
	}
	return a.write()
}

// finish writes the pending frames, and waits until all are written.
func (a *answers) finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.writing {
		a.changed.Wait()
	}
	return a.write()
}

// write writes until no frames are pending. a.mu is held.
func (a *answers) write() error {
	a.writing = true
	for len(a.pending) > 0 && a.err == nil {
		b := a.pending
		a.pending = a.spare[:0]
		a.mu.Unlock()
		_, err := a.out.Write(b)
		a.mu.Lock()
		if err != nil {
			a.err = &writeError{err}
			close(a.broken)
		}
		a.spare = b
		if cap(b) > keepSize {
			a.spare = nil
		}
		a.changed.Broadcast()
	}
	if a.err != nil {
		a.pending = a.pending[:0]
	}
	a.writing = false
	a.changed.Broadcast()
	return a.err
}
