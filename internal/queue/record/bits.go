package record

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// Fate is how a member of a batch ended.
type Fate uint8

// The fates; Fates is how many there are.
const (
	FateOK Fate = iota
	FateFailed
	FateCanceled
	FateLost // no longer in the queue, and without an outcome

	Fates = iota
)

// FateOf returns the fate of a member whose job has ended with e.
func FateOf(e *End) Fate {
	switch e.State() {
	case job.Done:
		return FateOK
	case job.Canceled:
		return FateCanceled
	default:
		return FateFailed
	}
}

// ChunkMembers is the number of members of a chunk. It bounds how much is stored for one
// change, however large the batch.
const ChunkMembers = 1 << 14

// Chunk records how some members of a batch ended: one bit per member for whether it has
// ended, and two bits for its fate. Each set grows as bits are set.
type Chunk struct{ Ended, low, high WordSet }

// WordSet is a set of small numbers.
type WordSet []uint64

// Has reports whether i is in s.
func (s WordSet) Has(i int) bool { return i>>6 < len(s) && s[i>>6]>>(i&63)&1 != 0 }

// Set puts i into s.
func (s *WordSet) Set(i int) {
	if need := i>>6 + 1; need > len(*s) {
		*s = append(*s, make([]uint64, need-len(*s))...)
	}
	(*s)[i>>6] |= 1 << (i & 63)
}

// Set records how member i of the chunk ended, and reports whether that is new.
func (c *Chunk) Set(i int, f Fate) bool {
	if c.Ended.Has(i) {
		return false
	}
	c.Ended.Set(i)
	if f&1 != 0 {
		c.low.Set(i)
	}
	if f&2 != 0 {
		c.high.Set(i)
	}
	return true
}

// Fate returns how member i ended, if it has.
func (c *Chunk) Fate(i int) (f Fate, ended bool) {
	if c.low.Has(i) {
		f |= 1
	}
	if c.high.Has(i) {
		f |= 2
	}
	return f, c.Ended.Has(i)
}

// NewIn calls each for the members that have ended in other but not in c.
func (c *Chunk) NewIn(other *Chunk, each func(i int, f Fate)) {
	for w, word := range other.Ended {
		if w < len(c.Ended) {
			word &^= c.Ended[w]
		}
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			f, _ := other.Fate(i)
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

// BitsSubject returns the subject under which a node stores what it has counted of a
// chunk.
func BitsSubject(batch string, number int, run string) string {
	return "set.bend." + batch + "." + strconv.Itoa(number) + "." + run
}

// ParseBits splits a subject that BitsSubject returned.
func ParseBits(subject string) (batch string, number int, run string, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || t[0] != "set" || t[1] != "bend" {
		return "", 0, "", false
	}
	n, err := strconv.Atoi(t[3])
	return t[2], n, t[4], err == nil && n >= 0 && n <= job.MostMembers/ChunkMembers
}

// Encode returns the record of c. created is the time of the batch: a later batch with
// the same key has the same id.
func (c *Chunk) Encode(subject string, created time.Time) []byte {
	w := newRecord(8*(len(c.Ended)+len(c.low)+len(c.high)) + 32)
	w.moment(bitsCreated, created)
	w.bytes(bitsEnded, c.Ended.fields())
	w.bytes(bitsLow, c.low.fields())
	w.bytes(bitsHigh, c.high.fields())
	return w.seal(subject)
}

func (s WordSet) fields() []byte {
	b := make([]byte, 0, 8*len(s))
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func (s *WordSet) read(f field) error {
	if len(f.v)%8 != 0 || len(f.v) > ChunkMembers/8 {
		return fmt.Errorf("%w: field %d has %d bytes of bits", job.ErrDamaged, f.tag, len(f.v))
	}
	*s = nil
	for b := range slices.Chunk(f.v, 8) {
		*s = append(*s, binary.LittleEndian.Uint64(b))
	}
	return nil
}

// DecodeChunk reads a record that [Chunk.Encode] wrote.
func DecodeChunk(subject string, b []byte) (c *Chunk, created time.Time, err error) {
	c = new(Chunk)
	err = readRecord(subject, b, func(f field) error {
		switch f.tag {
		case bitsCreated:
			return f.into(&created)
		case bitsEnded:
			return c.Ended.read(f)
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
