package client

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// source is the body of a request: bytes of the caller, which are read no more
// once the call has returned, although the transport may still hold the request.
type source struct {
	size int

	mu   sync.Mutex
	data []byte // nil after release; +checklocks:mu
}

func newSource(data []byte) *source { return &source{size: len(data), data: data} }

var errReleased = errors.New("the call that sent this has returned")

// copied is the largest body that is copied. A copy is a reader that the transport
// knows to be in memory, and sends with the headers in one write.
const copied = 16 << 10

// reader returns a reader from the beginning.
func (s *source) reader() io.ReadCloser {
	if s.size > copied {
		return &sourceReader{source: s}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		return &sourceReader{source: s} // which says so
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(s.data)))
}

// appendTo appends the bytes to b.
func (s *source) appendTo(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(b, s.data...)
}

// release lets go of the bytes: after it nobody reads them.
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
