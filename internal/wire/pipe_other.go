//go:build !unix

package wire

import (
	"errors"
	"io"
	"os"
	"time"
)

// Writer is the host's end of the pipe to a worker. It must not be used concurrently.
type Writer struct{ file *os.File }

// NewWriter returns a Writer that owns file.
func NewWriter(file *os.File) (*Writer, error) { return &Writer{file}, nil }

// Try writes nothing: without nonblocking pipes every write may block.
func (w *Writer) Try([]byte) (int, error) { return 0, nil }

// Write writes all of b, waiting for room.
func (w *Writer) Write(b []byte) (int, error) { return w.file.Write(b) }

// Unread returns an error: this system does not report it.
func (w *Writer) Unread() (int, error) { return 0, errors.ErrUnsupported }

// Close closes the pipe.
func (w *Writer) Close() error { return w.file.Close() }

// Reader is the host's end of the pipe from a worker. A separate goroutine reads ahead,
// because a read cannot be interrupted on this system; it ends at the end of the pipe.
type Reader struct {
	file *os.File
	feed *feed
}

// NewReader returns a Reader that owns file.
func NewReader(file *os.File) (*Reader, error) { return &Reader{file, newFeed(file)}, nil }

// Wait calls try whenever there may be data to read, until try returns true. It returns
// an error when the deadline has passed.
func (r *Reader) Wait(try func(fd uintptr) bool) error {
	key := r.feed.open()
	defer r.feed.shut(key)
	for !try(key) {
		if err := r.feed.wait(); err != nil {
			return err
		}
	}
	return nil
}

// Control calls f with a key for ReadNow.
func (r *Reader) Control(f func(fd uintptr)) error {
	key := r.feed.open()
	defer r.feed.shut(key)
	f(key)
	return nil
}

// SetDeadline makes Wait return an error at t.
func (r *Reader) SetDeadline(t time.Time) error {
	r.feed.setDeadline(t)
	return nil
}

// Close closes the pipe.
func (r *Reader) Close() error { return r.file.Close() }

// ErrAgain means that no data is available now.
var ErrAgain = errors.New("nothing to read now")

// ReadNow reads available data without waiting. It returns ErrAgain if there is none, and
// io.EOF at the end.
func ReadNow(fd uintptr, b []byte) (int, error) {
	f, ok := feeds.Load(fd)
	if !ok {
		return 0, io.ErrClosedPipe
	}
	return f.(*feed).read(b)
}

// Readable returns false: this system does not report it without reading.
func Readable(uintptr) bool { return false }
