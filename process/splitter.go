package process

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// splitter splits one output stream of a worker into lines.
type splitter struct {
	w      *worker
	c      *call // the task that it belongs to; nil for the running one
	tail   *tail // keeps the last lines of standard error
	stream string

	pumping sync.Mutex // held by the goroutine that reads the stream; guards what follows
	buffer  []byte
	line    []byte

	flood bool // the log dropped lines, and the stream has not run dry since
	after int  // bytes read since the process ended
	read  int  // bytes read by hear
}

func newSplitter(w *worker, c *call, tail *tail, stream string) *splitter {
	return &splitter{w: w, c: c, tail: tail, stream: stream, buffer: make([]byte, 4<<10)}
}

const (
	floodBuffer = 64 << 10 // bytes per read of a flooding stream
	floodLines  = 64       // lines per read that are logged; the rest is counted
	floodRest   = 9        // pause after a read, as a multiple of its duration
	restLeast   = 100 * time.Microsecond
	restMost    = 20 * time.Millisecond
	lastBytes   = 1 << 20 // most bytes read from children of a dead worker
)

// pump reads what is available, and reports whether the stream has ended.
func (s *splitter) pump(fd uintptr) bool {
	for {
		if n, over := s.next(fd); n == 0 || over {
			return over
		}
	}
}

// catchUp reads what the worker had printed before the call. What a pipe holds is enough:
// the worker may go on printing.
func (s *splitter) catchUp(fd uintptr) {
	for read := 0; read < pipeSize; {
		n, over := s.next(fd)
		if n == 0 || over {
			return
		}
		read += n
	}
}

// pipeSize is how much a pipe holds, see pipe(7).
const pipeSize = 64 << 10

// next reads the next bytes. It returns how many, 0 if none is available, and whether the
// stream has ended.
func (s *splitter) next(fd uintptr) (n int, over bool) {
	s.pumping.Lock()
	defer s.pumping.Unlock()
	began := time.Now()
	n, err := wire.ReadNow(fd, s.buffer)
	if errors.Is(err, wire.ErrAgain) {
		s.flood = false
		return 0, false
	}
	if err != nil {
		return 0, true
	}
	s.took(s.buffer[:n], began)
	return n, s.outlived(n)
}

// took handles b. A stream that floods the log must not use up the processors of the
// host, so only a part of it is logged, and its worker has to wait.
func (s *splitter) took(b []byte, began time.Time) {
	if !s.flood {
		s.take(b)
		return
	}
	for range floodLines {
		i := bytes.IndexByte(b, '\n') + 1
		if i == 0 {
			break
		}
		s.take(b[:i])
		b = b[i:]
	}
	s.skip(b)
	if len(s.buffer) < floodBuffer {
		s.buffer = make([]byte, floodBuffer)
	}
	<-time.After(min(max(floodRest*time.Since(began), restLeast), restMost))
}

// skip counts the complete lines in b as lost, and keeps the last lines of standard
// error and the start of an incomplete line.
func (s *splitter) skip(b []byte) {
	i := bytes.LastIndexByte(b, '\n') + 1
	if i > 0 {
		s.line = s.line[:0]
		s.w.pool.logs.lost.Add(uint64(bytes.Count(b[:i], []byte{'\n'})))
		if s.stream == "stderr" {
			for line := range bytes.SplitSeq(b[max(0, i-tailBytes):i-1], []byte{'\n'}) {
				s.tail.add(strings.ToValidUTF8(string(line), "\uFFFD"))
			}
		}
	}
	s.take(b[i:])
}

// outlived reports whether to stop reading a stream whose process has ended while its
// children go on writing.
func (s *splitter) outlived(n int) bool {
	p := s.w.pool
	p.mu.Lock()
	exited := s.w.exited
	p.mu.Unlock()
	if !exited {
		return false
	}
	s.after += n
	return s.after > lastBytes
}

// take splits b into lines, and truncates those that are too long.
func (s *splitter) take(b []byte) {
	for len(b) > 0 {
		text, after, whole := bytes.Cut(b, []byte{'\n'})
		b = after
		s.line = append(s.line, text[:min(len(text), protocol.MaxLogText-len(s.line))]...)
		if whole {
			s.record()
			s.line = s.line[:0]
		}
	}
}

// flush records a last line without line feed.
func (s *splitter) flush() {
	s.pumping.Lock()
	defer s.pumping.Unlock()
	if len(s.line) > 0 {
		s.record()
		s.line = s.line[:0]
	}
}

// record hands one line to the log.
func (s *splitter) record() {
	text := string(bytes.TrimRight(s.line, "\r"))
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	level := slog.LevelInfo
	if s.stream == "stderr" {
		level = slog.LevelWarn
		s.tail.add(text)
	}
	r := record{worker: s.w.name, line: bullpen.LogLine{Time: time.Now(), Level: int(level), Stream: s.stream, Text: text}}
	p := s.w.pool
	p.mu.Lock()
	c := s.c
	if c == nil {
		c = s.w.running()
	}
	if c != nil {
		r.of(c)
	}
	p.mu.Unlock()
	if !p.logs.put(r) {
		s.flood = true
	}
}

// hear reads file until its end or its deadline, and passes the output to s.
func hear(file io.Reader, s *splitter) {
	for {
		began := time.Now()
		n, err := file.Read(s.buffer)
		s.read += n
		s.flood = s.flood && n == len(s.buffer) // else it has run dry
		s.took(s.buffer[:n], began)
		if err != nil {
			s.flush()
			return
		}
	}
}
