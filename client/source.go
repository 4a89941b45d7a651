package client

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// source is the body of a request. It holds the caller's bytes, which must not be
// read after the call has returned, although the transport may still hold the
// request.
type source struct {
	size int

	mu   sync.Mutex
	data []byte // nil after release; guarded by mu
}

func newSource(data []byte) *source { return &source{size: len(data), data: data} }

var errReleased = errors.New("the call that sent this has returned")

// copied is the largest body that is copied. The transport recognizes a reader over a
// copy as in memory, and sends it with the headers in one write.
const copied = 16 << 10

// reader returns a reader that starts at the beginning.
func (s *source) reader() io.ReadCloser {
	if s.size > copied {
		return &sourceReader{source: s}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		return &sourceReader{source: s} // Read returns errReleased
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(s.data)))
}

// appendTo appends the bytes to b.
func (s *source) appendTo(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(b, s.data...)
}

// release drops the bytes: afterwards no reader reads them.
func (s *source) release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.data = nil
	s.mu.Unlock()
}

type sourceReader struct {
	source *source
	at     int
}

func (r *sourceReader) Read(p []byte) (int, error) {
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.at >= s.size {
		return 0, io.EOF
	}
	if s.data == nil {
		return 0, errReleased
	}
	n := copy(p, s.data[r.at:])
	r.at += n
	return n, nil
}

func (r *sourceReader) Close() error { return nil }
