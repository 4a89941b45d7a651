//go:build unix

package wire

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Writer is the host's end of the pipe to a worker. It must not be used concurrently.
type Writer struct {
	file *os.File
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: no allocation per write
	in   []byte
	n    int
	err  error
}

// NewWriter returns a Writer that owns file, which must be a nonblocking pipe end known
// to the runtime's poller.
func NewWriter(file *os.File) (*Writer, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, raw: raw}
	w.try = func(fd uintptr) bool {
		w.n, w.err = 0, nil
		for len(w.in) > 0 {
			n, err := syscall.Write(int(fd), w.in)
			switch {
			case n > 0:
				w.n += n
				w.in = w.in[n:]
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return true
			default:
				w.err = err
				return true
			}
		}
		return true
	}
	return w, nil
}

// Try writes as much of b as fits without waiting, and returns how much that was.
func (w *Writer) Try(b []byte) (int, error) {
	w.in = b
	err := w.raw.Write(w.try)
	w.in = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// Write writes all of b, waiting for room.
func (w *Writer) Write(b []byte) (int, error) { return w.file.Write(b) }

// Unread returns how many bytes the worker has not read.
func (w *Writer) Unread() (int, error) {
	n, err := 0, error(nil)
	if e := w.raw.Control(func(fd uintptr) { n, err = unread(fd) }); e != nil {
		return 0, e
	}
	return n, err
}

// Close closes the pipe; the worker then reads the end of file.
func (w *Writer) Close() error { return w.file.Close() }

// Reader is the host's end of the pipe from a worker.
type Reader struct {
	file *os.File
	raw  syscall.RawConn
}

// NewReader returns a Reader that owns file, which must be a nonblocking pipe end known
// to the runtime's poller.
func NewReader(file *os.File) (*Reader, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Reader{file, raw}, nil
}

// Wait calls try whenever there may be data to read, until try returns true. It returns
// an error when the deadline has passed or the pipe is closed.
func (r *Reader) Wait(try func(fd uintptr) bool) error { return r.raw.Read(try) }

// Control calls f with the descriptor, which stays open meanwhile.
func (r *Reader) Control(f func(fd uintptr)) error { return r.raw.Control(f) }

// SetDeadline makes Wait return an error at t.
func (r *Reader) SetDeadline(t time.Time) error { return r.file.SetReadDeadline(t) }

// Close closes the pipe.
func (r *Reader) Close() error { return r.file.Close() }

// ErrAgain means that no data is available now.
var ErrAgain = errors.New("nothing to read now")

// ReadNow reads available data without waiting. It returns ErrAgain if there is none, and
// io.EOF at the end.
func ReadNow(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), b)
		switch {
		case n > 0:
			return n, nil
		case n == 0 && err == nil:
			return 0, io.EOF
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, ErrAgain
		default:
			return 0, err
		}
	}
}
