//go:build !unix

package wire

import (
	"errors"
	"io"
	"os"
	"time"
)

// Writer is the host's end of the pipe to a worker. One goroutine uses it at a
// time.
type Writer struct{ file *os.File }

// NewWriter takes over file.
func NewWriter(file *os.File) (*Writer, error) { return &Writer{file}, nil }

// Try writes nothing: without nonblocking pipes every write may wait.
func (w *Writer) Try([]byte) (int, error) { return 0, nil }

// Write writes all of b, waiting for room.
func (w *Writer) Write(b []byte) (int, error) { return w.file.Write(b) }

// Unread is not known here.
func (w *Writer) Unread() (int, error) { return 0, errors.ErrUnsupported }

// Close closes the pipe.
func (w *Writer) Close() error { return w.file.Close() }

// Reader is the host's end of the pipe from a worker. Bytes are read ahead by a
// goroutine of its own, because a read here cannot be interrupted; it ends at
// the end of the pipe.
type Reader struct {
	file *os.File
	feed *feed
}

// NewReader takes over file.
func NewReader(file *os.File) (*Reader, error) { return &Reader{file, newFeed(file)}, nil }

// Wait calls try each time there may be something to read, until it returns
// true. It returns an error when the deadline has passed.
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

// SetDeadline ends Wait at t.
func (r *Reader) SetDeadline(t time.Time) error {
	r.feed.setDeadline(t)
	return nil
}

// Close closes the pipe.
func (r *Reader) Close() error { return r.file.Close() }

// ErrAgain says that there is nothing to read now.
var ErrAgain = errors.New("nothing to read now")

// ReadNow reads what is there without waiting: ErrAgain when there is nothing,
// io.EOF at the end.
func ReadNow(fd uintptr, b []byte) (int, error) {
	f, ok := feeds.Load(fd)
	if !ok {
		return 0, io.ErrClosedPipe
	}
	return f.(*feed).read(b)
}

// Readable is not known without reading: false.
func Readable(uintptr) bool { return false }
