package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	blockSize = 256 << 10
	blockLeft = 4 << 10 // a block with less room left is replaced
)

// record is one task of the input: a line without its end, or several values.
type record struct {
	text   []byte
	size   int64    // size of a line that is too long and has no text; otherwise 0
	values []string // if there are several; text has them joined
}

// splitter reads large blocks and splits them into lines. The text of a record stays
// valid, because no block is reused.
type splitter struct {
	from  io.Reader
	end   byte // line ending
	limit int  // maximum length of a line

	block   []byte
	cut     int   // start of the incomplete line
	filled  int   // end of the data read
	looked  int   // there is no line ending before this
	dropped int64 // bytes dropped of a line that is too long
	records []record
}

func newSplitter(from io.Reader, end byte, limit int) *splitter {
	return &splitter{from: from, end: end, limit: limit, block: make([]byte, blockSize)}
}

// next returns the lines that one read completed, possibly none; with io.EOF, the
// remaining ones. The slice is valid until the next call.
func (s *splitter) next() ([]record, error) {
	s.records = s.records[:0]
	s.makeRoom()
	n, err := s.from.Read(s.block[s.filled:])
	s.filled += n
	s.split()
	if err == nil {
		return s.records, nil
	}
	if !errors.Is(err, io.EOF) {
		return s.records, fmt.Errorf("reading the input: %w", err)
	}
	if s.filled > s.cut || s.dropped > 0 {
		s.take(s.filled) // the last line may lack an end
	}
	return s.records, io.EOF
}

// split takes the complete lines out of the data read.
func (s *splitter) split() {
	for {
		i := bytes.IndexByte(s.block[s.looked:s.filled], s.end)
		if i < 0 {
			s.looked = s.filled
			break
		}
		s.take(s.looked + i)
		s.cut = s.looked + i + 1
		s.looked = s.cut
	}
	if s.filled-s.cut > s.limit { // drop the line, but count its bytes
		s.dropped += int64(s.filled - s.cut)
		s.cut, s.looked = s.filled, s.filled
	}
}

// take adds the line that ends at to.
func (s *splitter) take(to int) {
	size := int64(to-s.cut) + s.dropped
	s.dropped = 0
	if size > int64(s.limit) {
		s.records = append(s.records, record{size: size})
	} else {
		s.records = append(s.records, record{text: s.block[s.cut:to:to]})
	}
	s.cut = to
}

// makeRoom starts another block when this one is full, twice as large if one line
// fills it.
func (s *splitter) makeRoom() {
	if len(s.block)-s.filled >= blockLeft {
		return
	}
	rest := s.block[s.cut:s.filled]
	size := max(blockSize, 2*len(rest))
	block := make([]byte, size)
	s.looked -= s.cut
	s.filled = copy(block, rest)
	s.block, s.cut = block, 0
}
