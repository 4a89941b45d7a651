package pebble

import (
	"encoding/binary"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// overhead is added to the size of each message, besides its subject and data.
const overhead = 32

// item is the stored form of a message.
type item struct {
	subject string
	data    []byte
	time    int64 // when it was stored, in nanoseconds
	timed   bool  // something happens to it at due
	due     int64 // when a job with a time appears, or a message of State is removed
	target  string
}

// The shapes of an item.
const (
	plainItem = iota
	laterItem // a job with a time; subject is its target
	shortItem // a message that is removed at a time
)

func (i *item) size() int64 { return int64(len(i.subject)+len(i.data)) + overhead }

// length returns how many bytes encode appends.
func (i *item) length() int {
	subject, n := i.subject, 9
	if i.target != "" {
		subject = i.target
	}
	if i.timed {
		n += 8
	}
	var b [binary.MaxVarintLen64]byte
	return n + binary.PutUvarint(b[:], uint64(len(subject))) + len(subject) + len(i.data)
}

// encode appends the item's bytes:
//
//	shape, time (8), of some due (8), length of the subject, subject, data
func (i *item) encode(b []byte) []byte {
	subject, shape := i.subject, byte(plainItem)
	switch {
	case i.target != "":
		subject, shape = i.target, laterItem
	case i.timed:
		shape = shortItem
	}
	b = binary.BigEndian.AppendUint64(append(b, shape), uint64(i.time))
	if shape != plainItem {
		b = binary.BigEndian.AppendUint64(b, uint64(i.due))
	}
	b = binary.AppendUvarint(b, uint64(len(subject)))
	return append(append(b, subject...), i.data...)
}

// later returns the subject on which a job waits for its time.
func later(target string) string { return "at." + engine.LastToken(target) }

// readItem decodes an item; its data shares the memory of b.
func readItem(b []byte) (item, error) {
	var i item
	if len(b) < 9 || b[0] > shortItem {
		return i, errRecord
	}
	shape := b[0]
	i.time = int64(binary.BigEndian.Uint64(b[1:]))
	if b = b[9:]; shape != plainItem {
		if len(b) < 8 {
			return i, errRecord
		}
		i.timed, i.due = true, int64(binary.BigEndian.Uint64(b))
		b = b[8:]
	}
	n, used := binary.Uvarint(b)
	if used <= 0 || n == 0 || n > uint64(len(b)-used) {
		return i, errRecord
	}
	i.subject, i.data = string(b[used:used+int(n)]), b[used+int(n):]
	if shape == laterItem {
		i.target = i.subject
		i.subject = later(i.target)
	}
	return i, nil
}

// message returns the item as a message that the receiver may keep.
func (i *item) message(s engine.Stream, seq uint64) engine.Message {
	m := engine.Message{Stream: s, Subject: i.subject, Data: i.data, Seq: seq, Time: time.Unix(0, i.time), Target: i.target}
	switch {
	case i.target != "":
		m.At = time.Unix(0, i.due)
	case i.timed:
		m.Expires = time.Unix(0, i.due)
	}
	return m
}

// totals is how much each stream holds.
type totals [4]total

type total struct {
	messages, bytes int64
	last            uint64
}

func (t *totals) encode() []byte {
	var b []byte
	for _, s := range t {
		b = binary.AppendUvarint(b, uint64(s.messages))
		b = binary.AppendUvarint(b, uint64(s.bytes))
		b = binary.AppendUvarint(b, s.last)
	}
	return b
}

func readTotals(b []byte) (t totals, err error) {
	for i := range t {
		var n [3]uint64
		for k := range n {
			v, used := binary.Uvarint(b)
			if used <= 0 || v > 1<<62 {
				return totals{}, errRecord
			}
			n[k], b = v, b[used:]
		}
		t[i] = total{int64(n[0]), int64(n[1]), n[2]}
	}
	if len(b) != 0 {
		return totals{}, errRecord
	}
	return t, nil
}

// readCount decodes the number of messages of a front.
func readCount(b []byte) (int64, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || used != len(b) || n > 1<<62 {
		return 0, errRecord
	}
	return int64(n), nil
}

// appendTime appends the value of a key for a job that can be handed out.
func appendTime(b []byte, at int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(at)) }

func readTime(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, errRecord
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
