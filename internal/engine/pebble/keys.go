package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// All keys begin with the number of a namespace, two bytes, and a kind. Namespace 0 holds
// the names of the others:
//
//	0  'N' name                                     number
//	n  'm' stream seq                               message
//	n  'i' stream subject (turned, see appendIndex) seqs and sizes of the messages on it, oldest first
//	n  'r' queue 0 level 0 seq                      time of a job that can be handed out
//	n  't' time stream seq                          empty: something happens to the message then
//	n  'c'                                          what the streams hold
//	n  'n' stream subject without its last token    number of messages
//	n  'p' queue 0 level                            empty: the consumer is paused
const (
	kindName    = 'N'
	kindMessage = 'm'
	kindIndex   = 'i'
	kindReady   = 'r'
	kindTimed   = 't'
	kindCounts  = 'c'
	kindNumber  = 'n'
	kindPaused  = 'p'
)

// space builds the keys of one namespace.
type space uint16

func (n space) key(kind byte, more int) []byte { return n.begin(make([]byte, 0, 3+more), kind) }

// begin appends the common prefix of all keys. Keys that are built often reuse a buffer.
func (n space) begin(b []byte, kind byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(n)), kind)
}

// nameKey returns the key of a namespace's number.
func nameKey(name string) []byte { return append(space(0).key(kindName, len(name)), name...) }

func (n space) message(s engine.Stream, seq uint64) []byte {
	return n.appendMessage(make([]byte, 0, 12), s, seq)
}

func (n space) appendMessage(b []byte, s engine.Stream, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(n.begin(b, kindMessage), byte(s)), seq)
}

func (n space) index(s engine.Stream, subject string) []byte {
	return n.appendIndex(make([]byte, 0, 5+len(subject)), s, subject)
}

// appendIndex appends the form of a subject in the index. For State it is the subject
// itself, so that subjects with a common prefix are neighbors. For the other streams the
// last token comes first, so that "job.*.*.<id>" is found.
func (n space) appendIndex(b []byte, s engine.Stream, subject string) []byte {
	b = append(n.begin(b, kindIndex), byte(s))
	if s == engine.State {
		return append(b, subject...)
	}
	token := engine.LastToken(subject)
	b = append(append(b, token...), 0)
	return append(b, strings.TrimSuffix(subject[:len(subject)-len(token)], ".")...)
}

// indexFrom returns the first possible key of the index entries that begin with start.
func (n space) indexFrom(s engine.Stream, start string) []byte {
	return append(append(n.key(kindIndex, 1+len(start)), byte(s)), start...)
}

// subjectAt returns the subject of a key of the index.
func subjectAt(s engine.Stream, key []byte) (string, bool) {
	if len(key) < 5 {
		return "", false
	}
	text := string(key[4:])
	if s == engine.State {
		return text, true
	}
	token, front, ok := strings.Cut(text, "\x00")
	if front == "" {
		return token, ok
	}
	return front + "." + token, ok
}

func (n space) appendConsumer(b []byte, kind byte, c engine.Consumer) []byte {
	b = append(append(n.begin(b, kind), c.Queue...), 0)
	return append(append(b, c.Level()...), 0)
}

func (n space) ready(c engine.Consumer, seq uint64) []byte { return n.appendReady(nil, c, seq) }

func (n space) appendReady(b []byte, c engine.Consumer, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(n.appendConsumer(b, kindReady, c), seq)
}

func (n space) paused(c engine.Consumer) []byte { return n.appendConsumer(nil, kindPaused, c) }

func (n space) timed(at int64, s engine.Stream, seq uint64) []byte {
	b := binary.BigEndian.AppendUint64(n.key(kindTimed, 17), ordered(at))
	return binary.BigEndian.AppendUint64(append(b, byte(s)), seq)
}

// readTimed splits a timed key.
func readTimed(key []byte) (at int64, s engine.Stream, seq uint64, ok bool) {
	if len(key) != 20 {
		return 0, 0, 0, false
	}
	return unordered(binary.BigEndian.Uint64(key[3:])), engine.Stream(key[11]), binary.BigEndian.Uint64(key[12:]), true
}

// ordered encodes a time so that its bytes sort like it, even before 1970.
func ordered(at int64) uint64     { return uint64(at) ^ 1<<63 }
func unordered(bits uint64) int64 { return int64(bits ^ 1<<63) }

func (n space) number(s engine.Stream, front string) []byte {
	return append(append(n.key(kindNumber, 1+len(front)), byte(s)), front...)
}

// front is a subject without its last token and the dot before that.
func front(subject string) string {
	return strings.TrimSuffix(subject[:len(subject)-len(engine.LastToken(subject))], ".")
}

// seqOf returns the number at the end of a key.
func seqOf(key []byte) (uint64, bool) {
	if len(key) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[len(key)-8:]), true
}

// after returns the first key behind all that begin with start.
func after(start []byte) []byte {
	end := bytes.Clone(start)
	for i := range slices.Backward(end) {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// entry is an index entry: one message on a subject.
type entry struct {
	seq  uint64
	size int64
}

var errRecord = errors.New("a record differs from what was written")

// appendEntries encodes the messages of one subject, oldest first.
func appendEntries(b []byte, entries []entry) []byte {
	for _, p := range entries {
		b = binary.BigEndian.AppendUint64(b, p.seq)
		b = binary.BigEndian.AppendUint64(b, uint64(p.size))
	}
	return b
}

func readEntries(b []byte) ([]entry, error) {
	if len(b) == 0 || len(b)%16 != 0 {
		return nil, errRecord
	}
	entries := make([]entry, 0, len(b)/16)
	for ; len(b) > 0; b = b[16:] {
		p := entry{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))}
		if p.size < 0 || len(entries) > 0 && p.seq <= entries[len(entries)-1].seq {
			return nil, errRecord
		}
		entries = append(entries, p)
	}
	return entries, nil
}
