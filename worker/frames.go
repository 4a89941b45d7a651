package worker

import (
	"errors"
	"io"

	"github.com/bullpen-run/bullpen/protocol"
)

const (
	bufferSize = 256 << 10
	keepReads  = 64   // a larger buffer is given back after so many small reads
	cheapMove  = 4096 // so few bytes are moved rather than read behind
)

// frames reads the frames of the host: one large read, then all frames that it
// brought. It is used by one goroutine at a time.
type frames struct {
	in         io.Reader
	buf        []byte
	start, end int // what of buf is not taken yet
	small      int // reads since the last large frame
}

func newFrames(in io.Reader) *frames {
	return &frames{in: in, buf: make([]byte, bufferSize)}
}

// next takes a frame that has been read; ok is false when none is complete. The
// body is valid until fill.
func (f *frames) next() (h protocol.Header, body []byte, ok bool, err error) {
	h, body, n, _, err := protocol.Split(f.buf[f.start:f.end], protocol.DefaultFrame)
	f.start += n
	return h, body, n > 0, err
}

// fill reads once. It gives io.EOF at an end of file between two frames, and a
// fault at one inside a frame.
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

// move puts what is not taken at the start of b.
func (f *frames) move(b []byte) {
	f.end = copy(b, f.buf[f.start:f.end])
	f.buf, f.start = b, 0
}
