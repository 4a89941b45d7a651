package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// The file of marks is a head and slots. A mark is one write of 12 bytes that
// never crosses a page, so a process that is killed leaves the old one or the
// new one.
//
//	head  "BPMARKS1", flags, 3 zero, hash of the boot id (16), checksum
//	slot  hash of the consumer (16), mark, checksum, 4 zero
//
// A slot with begunKey in place of the hash holds the number of one message that
// begins to run; when that has ended, the slot is written over by another.
const (
	marksHead  = "BPMARKS1"
	markSize   = 32
	markAt     = 16 // of the mark in its slot
	markLength = 12
	// mostMarks bounds what a damaged or foreign file can make us read.
	mostMarks = 1 << 20
)

// The flags of a head.
const (
	cleanFlag  = 1 << iota // closed in order: the marks hold even after a new start of the machine
	unsureFlag             // an earlier process was not sure of its marks, and was not closed in order
)

// consumerKey names a consumer in the file.
type consumerKey [16]byte

func keyOf(c engine.Consumer) (k consumerKey) {
	sum := sha256.Sum256([]byte(c.Queue + "\x00" + c.Level()))
	copy(k[:], sum[:])
	return k
}

// begunKey stands where others have the hash of a consumer.
var begunKey = consumerKey([]byte("begun one by one"))

// marked is what a file of marks says.
type marked struct {
	seqs  map[consumerKey]uint64
	begun map[uint64]struct{}
	boot  [16]byte
	flag  byte
	bad   bool // something in it does not hold
}

// marks notes how far consumers have handed out.
type marks struct {
	path string
	boot [16]byte // of this start of the machine
	old  map[consumerKey]uint64
	left map[uint64]struct{} // what earlier processes left begun
	sure bool                // old and left are complete

	mu    sync.Mutex
	file  *os.File                 // guarded by mu
	slots map[engine.Consumer]slot // guarded by mu
	count int64                    // guarded by mu: slots in the file
	begun map[uint64]int64         // guarded by mu: where what has begun has its slot
	free  []int64                  // guarded by mu: such slots that may be written over
}

// slot is where a consumer has its mark.
type slot struct {
	at  int64
	seq uint64
}

// bootHash gives the head's word for a start of the machine. An empty id is
// not known, and differs from itself.
func bootHash(boot string) (h [16]byte) {
	if boot != "" {
		sum := sha256.Sum256([]byte(boot))
		copy(h[:], sum[:])
	}
	return h
}

// openMarks reads what earlier processes left in dir and begins anew with it.
func openMarks(dir, boot string, fresh bool) (m *marks, damage []string, err error) {
	m = &marks{path: filepath.Join(dir, marksFile), boot: bootHash(boot), slots: map[engine.Consumer]slot{}, begun: map[uint64]int64{}}
	data, err := os.ReadFile(m.path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, nil, explain(dir, err)
	}
	left := readMarks(data)
	switch {
	case missing && !fresh:
		damage = append(damage, m.path+" is missing: which jobs were being handed out is not known")
	case !missing && left.bad:
		damage = append(damage, m.path+" is damaged: which jobs were being handed out is not known for sure")
	}
	sameBoot := boot != "" && left.boot == m.boot
	m.old, m.left = left.seqs, left.begun
	m.sure = missing && fresh || !missing && !left.bad && (left.flag&cleanFlag != 0 || sameBoot && left.flag&unsureFlag == 0)
	var flag byte
	if !m.sure {
		flag = unsureFlag
	}
	if err := replaceFile(m.path, m.encode(flag)); err != nil {
		return nil, nil, explain(dir, err)
	}
	if m.file, err = os.OpenFile(m.path, os.O_RDWR, 0); err != nil {
		return nil, nil, explain(dir, err)
	}
	return m, damage, nil
}

// encode gives a file with all marks of earlier processes. Slots are not given
// to consumers by name here; mark makes a new one, which counts if it is higher.
func (m *marks) encode(flag byte) []byte {
	b := appendMarksHead(nil, flag, m.boot)
	for k, seq := range m.old {
		b = appendMark(b, k, seq)
		m.count++
	}
	for seq := range m.left {
		m.begun[seq] = int64(len(b))
		b = appendMark(b, begunKey, seq)
		m.count++
	}
	return b
}

func appendMarksHead(b []byte, flag byte, boot [16]byte) []byte {
	at := len(b)
	b = append(b, marksHead...)
	b = append(b, flag, 0, 0, 0)
	b = append(b, boot[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

func appendMark(b []byte, k consumerKey, seq uint64) []byte {
	at := len(b)
	b = append(b, k[:]...)
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readMarks reads a file of marks. What does not hold is left out and told.
func readMarks(b []byte) marked {
	out := marked{seqs: map[consumerKey]uint64{}, begun: map[uint64]struct{}{}}
	if len(b) < markSize || !bytes.HasPrefix(b, []byte(marksHead)) ||
		binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		out.bad = true
	} else {
		out.flag = b[8]
		copy(out.boot[:], b[12:])
	}
	out.bad = out.bad || len(b)%markSize != 0 || len(b)/markSize > mostMarks
	for n := 1; n <= mostMarks && (n+1)*markSize <= len(b); n++ {
		s := b[n*markSize : (n+1)*markSize]
		if binary.LittleEndian.Uint32(s[24:]) != crc32.Checksum(s[:24], castagnoli) {
			out.bad = true
			continue
		}
		k := consumerKey(s[:16])
		if k == begunKey {
			out.begun[binary.LittleEndian.Uint64(s[markAt:])] = struct{}{}
			continue
		}
		out.seqs[k] = max(out.seqs[k], binary.LittleEndian.Uint64(s[markAt:]))
	}
	return out
}

// mark notes that messages of c up to seq are being handed out.
func (m *marks) mark(c engine.Consumer, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.slots[c]
	if known && seq <= s.seq {
		return nil
	}
	if m.file == nil {
		return engine.ErrClosed
	}
	k := keyOf(c)
	var err error
	if !known {
		s.at = markSize * (1 + m.count)
		_, err = m.file.WriteAt(appendMark(nil, k, seq), s.at)
	} else {
		b := appendMark(make([]byte, 0, markSize), k, seq)
		_, err = m.file.WriteAt(b[markAt:markAt+markLength], s.at+markAt)
	}
	if err != nil {
		return fmt.Errorf("noting what %s %s hands out: %w", c.Queue, c.Priority, err)
	}
	if !known {
		m.count++
	}
	s.seq = seq
	m.slots[c] = s
	return nil
}

// begin notes that the message seq begins to run.
func (m *marks) begin(seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.begun[seq]; known {
		return nil
	}
	if m.file == nil {
		return engine.ErrClosed
	}
	var room [2 * markSize]byte
	b := appendMark(room[:0], begunKey, seq)
	at := markSize * (1 + m.count)
	var err error
	if n := len(m.free); n > 0 {
		at = m.free[n-1]
		if _, err = m.file.WriteAt(b[markAt:markAt+markLength], at+markAt); err == nil {
			m.free = m.free[:n-1]
		}
	} else if _, err = m.file.WriteAt(b, at); err == nil {
		m.count++
	}
	if err != nil {
		return fmt.Errorf("noting that message %d begins: %w", seq, err)
	}
	m.begun[seq] = at
	return nil
}

// end lets the slot of seq be written over.
func (m *marks) end(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, known := m.begun[seq]; known {
		delete(m.begun, seq)
		m.free = append(m.free, at)
	}
}

// wasBegun tells whether an earlier process left seq begun.
func (m *marks) wasBegun(seq uint64) bool {
	_, was := m.left[seq]
	return was
}

// marked returns what earlier processes left.
func (m *marks) marked(c engine.Consumer) (seq uint64, sure bool) {
	return m.old[keyOf(c)], m.sure
}

// close makes the marks durable. When all was closed in order it says so, and
// they hold even after a new start of the machine.
func (m *marks) close(clean bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	var err error
	if clean {
		if err = m.file.Sync(); err == nil {
			_, err = m.file.WriteAt(appendMarksHead(nil, cleanFlag, m.boot), 0)
		}
	}
	err = errors.Join(err, m.file.Sync(), m.file.Close())
	m.file = nil
	return err
}
