package worker

import (
	"errors"
	"io"

	"github.com/bullpen-run/bullpen/protocol"
)

const (
	bufferSize = 256 << 10
	keepReads  = 64   // a larger buffer is released after this many small reads
	cheapMove  = 4096 // up to this many bytes are moved to the front before a read
)

// frames reads frames from the host: one large read, then all frames in it. It is used by
// one goroutine at a time.
type frames struct {
	in         io.Reader
	buf        []byte
	start, end int // unread part of buf
	small      int // reads since the last large frame
}

func newFrames(in io.Reader) *frames {
	return &frames{in: in, buf: make([]byte, bufferSize)}
}

// next returns the next buffered frame. ok is false if none is complete. body is valid
// until fill.
func (f *frames) next() (h protocol.Header, body []byte, ok bool, err error) {
	h, body, n, _, err := protocol.Split(f.buf[f.start:f.end], protocol.DefaultFrame)
	f.start += n
	return h, body, n > 0, err
}

// fill reads once. It returns io.EOF for an end of file between two frames, and another
// error for one inside a frame.
func (f *frames) fill() error {
	rest := f.buf[f.start:f.end]
	_, _, _, need, err := protocol.Split(rest, protocol.DefaultFrame)
	if err != nil {
		return err
	}
	f.small++
	if need > bufferSize {
		f.small = 0
	}
	switch {
	case need > len(f.buf):
		f.move(make([]byte, need))
	case len(f.buf) > bufferSize && f.small > keepReads && len(rest) < bufferSize:
		f.move(make([]byte, bufferSize))
	case f.start+need > len(f.buf) || len(rest) < cheapMove:
		f.move(f.buf)
	}
	n, err := f.in.Read(f.buf[f.end:])
	f.end += n
	if n > 0 {
		return nil
	}
	if err == nil || !errors.Is(err, io.EOF) {
		if err == nil {
			err = io.ErrNoProgress
		}
		return protocol.Invalidf("read from the host: %v", err)
	}
	if f.start < f.end {
		return protocol.Invalidf("end of file in the middle of a frame")
	}
	return io.EOF
}

// move moves the unread part to the start of b.
func (f *frames) move(b []byte) {
	f.end = copy(b, f.buf[f.start:f.end])
	f.buf, f.start = b, 0
}
