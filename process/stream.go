package process

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
)

const (
	inputSize  = 64 << 10 // of the buffer for the messages of a worker
	inputKeep  = 1 << 20  // a buffer that grew beyond this size is dropped
	outputKeep = 1 << 18  // likewise for what is written to a worker
)

// stream is what drivers share whose workers are spoken to over two pipes. The drivers
// encode and decode, the stream writes and reads.
type stream struct {
	base
	in  *wire.Writer // nil before open
	out *wire.Reader // nil before open

	// The goroutine that has claimed the worker uses these fields.
	batch []*call // the tasks to encode
	kept  []byte  // its memory is used for the next write

	unwritten int // bytes encoded and not written; Pool.mu guards it

	// reading is held by the goroutine that decodes the worker's messages: the worker's
	// own, or a caller that spins. It guards the fields below.
	reading    sync.Mutex
	decode     func() error          // removes all complete messages from buffer
	try        func(fd uintptr) bool // created once, to avoid an allocation per read
	buffer     []byte
	start, end int
	answers    answers
	eof        bool
	fault      error
	stalled    bool // a caller is slow: nothing is read
	last       bool // the worker has ended: all is read

	turned atomic.Bool // the worker's own goroutine found reading locked
}

// connect takes over the host's ends of the channel in made.
func (s *stream) connect(made *pipes, decode func() error) error {
	in, err := wire.NewWriter(made.in.host)
	if err != nil {
		return err
	}
	out, err := wire.NewReader(made.out.host)
	if err != nil {
		return err
	}
	made.in.host, made.out.host = nil, nil
	s.buffer, s.decode = make([]byte, inputSize), decode
	s.try = func(fd uintptr) bool {
		// A caller that spins reads instead, and checks turned after unlocking.
		if !s.reading.TryLock() {
			s.turned.Store(true)
			if !s.reading.TryLock() {
				return false
			}
		}
		defer s.reading.Unlock()
		return s.pump(fd)
	}
	s.w.pool.mu.Lock()
	defer s.w.pool.mu.Unlock()
	s.in, s.out = in, out
	return nil
}

// read decodes the worker's messages until the worker has ended, has closed its end, or
// violates the protocol.
func (s *stream) read() {
	if err := s.out.Wait(s.try); err != nil {
		// The process has ended, or its pipe was closed: decode what is left.
		s.reading.Lock()
		s.stalled, s.last = false, true
		s.reading.Unlock()
		_ = s.out.Control(func(fd uintptr) { s.try(fd) })
	}
	s.hungUp()
}

// hungUp reports the end of the messages to the pool.
func (s *stream) hungUp() {
	s.reading.Lock()
	fault := s.fault
	s.reading.Unlock()
	s.w.pool.hungUp(s.w, fault)
}

// pump reads and decodes what is available, and reports whether the input has ended.
func (s *stream) pump(fd uintptr) bool {
	for {
		if s.eof || s.fault != nil {
			return true
		}
		if s.stalled && !s.last {
			return false // resumeReading goes on
		}
		free := s.buffer[s.end:]
		n, err := wire.ReadNow(fd, free)
		if errors.Is(err, wire.ErrAgain) {
			return false
		}
		if err != nil {
			s.eof = true
			return true
		}
		s.end += n
		if s.fault = s.decode(); s.fault != nil {
			return true
		}
		if n < len(free) && !(s.answers.more && s.w.pool.spin.linger(fd)) {
			return false // the pipe is empty; new data wakes the reader
		}
	}
}

// decoded passes the answers to the pool and makes room for the incomplete message,
// which has need bytes. fault is what was wrong with the message after the answers.
func (s *stream) decoded(need int, fault error) error {
	if err := s.pass(); fault == nil {
		fault = err
	}
	s.makeRoom(need)
	return fault
}

// pass passes the answers to the pool.
func (s *stream) pass() error {
	if len(s.answers.messages) == 0 {
		return nil
	}
	err := s.w.pool.answered(s.w, &s.answers)
	s.answers.messages = s.answers.messages[:0]
	return err
}

// makeRoom moves the unread bytes to the front and sizes the buffer for the incomplete
// message, which has need bytes. One byte more than there are means that its length is
// unknown.
func (s *stream) makeRoom(need int) {
	rest := s.end - s.start
	size := len(s.buffer)
	switch {
	case need > size:
		size = max(need, 2*size)
		if need > inputKeep && need > rest+1 {
			size = need
		}
	case rest == 0 && size > inputKeep:
		size = inputSize
	case s.start == 0 || rest == 0:
		s.start, s.end = 0, rest
		return
	}
	from := s.buffer[s.start:s.end]
	if size != len(s.buffer) {
		s.buffer = make([]byte, size)
	}
	copy(s.buffer, from)
	s.start, s.end = 0, rest
}

// next takes the tasks to encode, in s.batch, and returns the bytes to append them to.
// If nothing is left to write, it ends the caller's claim and reports false.
func (s *stream) next() (out []byte, more bool) {
	w, p := s.w, s.w.pool
	p.mu.Lock()
	clear(s.batch)
	if len(w.pending) == 0 && len(w.control) == 0 || w.broken {
		if cap(s.kept) > outputKeep {
			s.kept = nil
		}
		p.release(w)
		return nil, false
	}
	s.batch, w.pending = w.pending, s.batch[:0]
	out = append(s.kept[:0], w.control...)
	w.control = w.control[:0]
	p.mu.Unlock()
	return out, true
}

// write writes out. It never waits for the worker: a goroutine of its own, which takes
// over the claim, writes what does not fit. write then reports false.
func (s *stream) write(out []byte) bool {
	s.kept = out
	n, err := s.in.Try(out)
	if err == nil && n < len(out) {
		// Ends when the worker has read it, or has ended.
		s.w.pool.tasks.Go(func() {
			more, err := s.in.Write(out[n:])
			s.wrote(len(out)-n-more, err)
			s.w.driver.send()
		})
		return false
	}
	s.wrote(len(out)-n, err)
	return true
}

// wrote records that writing failed with left bytes unwritten. The worker has ended or
// closed its end; its exit shows which.
func (s *stream) wrote(left int, err error) {
	if err == nil {
		return
	}
	p := s.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.unwritten = left
	p.broke(s.w)
}

// ended wakes the reader, even if a grandchild keeps the pipes open. It still reads what
// the worker had written.
func (s *stream) ended() { _ = s.out.SetDeadline(time.Unix(1, 0)) }

// leave closes the worker's input, so that it exits. Pool.mu is held.
func (s *stream) leave() {
	if s.in != nil {
		_ = s.in.Close()
	}
}

// close closes the channel.
func (s *stream) close() {
	if s.in == nil {
		return
	}
	_ = s.in.Close()
	s.reading.Lock() // a spinning caller may still read
	defer s.reading.Unlock()
	s.eof = true
	_ = s.out.Close()
}

// poll is await without the count of who spins.
func (s *stream) poll(c *call) (got bool) {
	if !s.reading.TryLock() {
		return false
	}
	over := false
	err := s.out.Control(func(fd uintptr) {
		for range spinReads {
			if over = s.pump(fd); over {
				return
			}
			select {
			case <-c.ready:
				got = true
				return
			default:
			}
		}
	})
	s.reading.Unlock()
	if err == nil {
		over = s.readTurned() || over
	}
	if over {
		s.hungUp() // its own reader may have missed the end
	}
	return got
}

// resumeReading reads from the worker again after a stall.
func (s *stream) resumeReading() {
	over := false
	s.reading.Lock()
	s.stalled = false
	err := s.out.Control(func(fd uintptr) { over = s.pump(fd) })
	s.reading.Unlock()
	if err == nil {
		over = s.readTurned() || over
	}
	if over {
		s.hungUp() // its own reader may have missed the end
	}
}

// readTurned reads what came while somebody else held s.reading, and the worker's own
// reader was turned away from it. It reports whether that was the end.
func (s *stream) readTurned() (over bool) {
	for s.turned.Swap(false) {
		err := s.out.Control(func(fd uintptr) { over = s.try(fd) || over })
		if err != nil {
			break // the pipe was closed
		}
	}
	return over
}

// unheard reports whether the worker may have answered without the host knowing, as on a
// busy machine: the answer is in the pipe, or its reader waits for Pool.mu, which is held.
func (s *stream) unheard() bool {
	if !s.reading.TryLock() {
		return true
	}
	readable := true
	_ = s.out.Control(func(fd uintptr) { readable = wire.Readable(fd) }) // the reader sees the end of the pipe
	s.reading.Unlock()
	if s.turned.Load() {
		s.w.pool.tasks.Go(func() { // ends when it has read what there is
			if s.readTurned() {
				s.hungUp() // its own reader may have missed the end
			}
		})
	}
	return readable
}
