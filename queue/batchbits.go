package queue

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// fate is how a member of a batch ended.
type fate uint8

const (
	fateOK fate = iota
	fateFailed
	fateCanceled
	fateLost // it is neither in the queue nor known how it ended

	fates = iota
)

func fateOf(e *ending) fate {
	switch e.state() {
	case Done:
		return fateOK
	case Canceled:
		return fateCanceled
	default:
		return fateFailed
	}
}

// chunkMembers is how many members a chunk has: what is stored of one change is so
// small, however large the batch.
const chunkMembers = 1 << 14

// chunk is how some members of a batch ended: one bit each for that they have, and
// two for how, where any has a fate that has that bit. These grow as they are used.
type chunk struct{ ended, low, high wordSet }

// wordSet is a set of small numbers.
type wordSet []uint64

func (s wordSet) has(i int) bool { return i>>6 < len(s) && s[i>>6]>>(i&63)&1 != 0 }

func (s *wordSet) set(i int) {
	if need := i>>6 + 1; need > len(*s) {
		*s = append(*s, make([]uint64, need-len(*s))...)
	}
	(*s)[i>>6] |= 1 << (i & 63)
}

// set notes how the member i of the chunk ended, and tells whether that is new.
func (c *chunk) set(i int, f fate) bool {
	if c.ended.has(i) {
		return false
	}
	c.ended.set(i)
	if f&1 != 0 {
		c.low.set(i)
	}
	if f&2 != 0 {
		c.high.set(i)
	}
	return true
}

// fate tells how the member i ended, if it has.
func (c *chunk) fate(i int) (f fate, ended bool) {
	if c.low.has(i) {
		f |= 1
	}
	if c.high.has(i) {
		f |= 2
	}
	return f, c.ended.has(i)
}

// newIn calls each for the members of other that have ended and have not in c.
func (c *chunk) newIn(other *chunk, each func(i int, f fate)) {
	for w, word := range other.ended {
		if w < len(c.ended) {
			word &^= c.ended[w]
		}
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			f, _ := other.fate(i)
			each(i, f)
		}
	}
}

const (
	bitsCreated = iota + 1
	bitsEnded
	bitsLow
	bitsHigh
)

// bitsSubject is where a node keeps what it has counted of a chunk.
func bitsSubject(batch string, number int, run string) string {
	return "set.bend." + batch + "." + strconv.Itoa(number) + "." + run
}

// parseBits gives what the subject of such a record says.
func parseBits(subject string) (batch string, number int, run string, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "set" || t[1] != "bend" {
		return "", 0, "", false
	}
	n, err := strconv.Atoi(t[3])
	return t[2], n, t[4], err == nil && n >= 0 && n <= MostMembers/chunkMembers
}

// encode gives the record of c. created is of the batch: another batch of the same
// key has the same id.
func (c *chunk) encode(subject string, created time.Time) []byte {
	w := newRecord(8*(len(c.ended)+len(c.low)+len(c.high)) + 32)
	w.moment(bitsCreated, created)
	w.bytes(bitsEnded, c.ended.fields())
	w.bytes(bitsLow, c.low.fields())
	w.bytes(bitsHigh, c.high.fields())
	return w.seal(subject)
}

func (s wordSet) fields() []byte {
	b := make([]byte, 0, 8*len(s))
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func (s *wordSet) read(f field) error {
	if len(f.v)%8 != 0 || len(f.v) > chunkMembers/8 {
		return fmt.Errorf("%w: field %d has %d bytes of bits", errCorrupt, f.tag, len(f.v))
	}
	*s = nil
	for b := range slices.Chunk(f.v, 8) {
		*s = append(*s, binary.LittleEndian.Uint64(b))
	}
	return nil
}

// decodeChunk reads such a record.
func decodeChunk(subject string, b []byte) (c *chunk, created time.Time, err error) {
	c = new(chunk)
	err = readRecord(subject, b, func(f field) error {
		switch f.tag {
		case bitsCreated:
			return f.into(&created)
		case bitsEnded:
			return c.ended.read(f)
		case bitsLow:
			return c.low.read(f)
		case bitsHigh:
			return c.high.read(f)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("members of a batch, %s: %w", engine.LastToken(subject), err)
	}
	return c, created, nil
}
