package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file of the ledger is a head and records, all of the same size, so that one
// can be damaged without taking those behind it along.
//
//	head    "BPLEDGR1", kind, 3 zero, records in it (a snapshot) or 0, checksum
//	record  0xB9 0x17, kind, zero, id, checksum
const (
	recordSize = 24
	ledgerHead = "BPLEDGR1"
)

// recordKind is what a record tells of a job.
type recordKind byte

const (
	acceptedRecord recordKind = 1
	endedRecord    recordKind = 2
)

// fileKind tells the two sorts of files apart.
type fileKind byte

const (
	logFile      fileKind = 'L' // grows by appending
	snapshotFile fileKind = 'S' // written at once; stands for all before it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the checksum of the last recordSize-4 bytes of b.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[len(b)-recordSize+4:], castagnoli))
}

// sealed tells whether the checksum of r holds.
func sealed(r []byte) bool {
	return binary.LittleEndian.Uint32(r[recordSize-4:]) == crc32.Checksum(r[:recordSize-4], castagnoli)
}

func appendHead(b []byte, kind fileKind, count int) []byte {
	b = append(b, ledgerHead...)
	b = append(b, byte(kind), 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(count))
	return seal(b)
}

func appendRecord(b []byte, kind recordKind, i id) []byte {
	b = append(b, 0xB9, 0x17, byte(kind), 0)
	b = append(b, i[:]...)
	return seal(b)
}

// content is what a file of the ledger was found to hold.
type content struct {
	kind    fileKind
	records int
	whole   int64    // up to where it is to be kept
	torn    int64    // bytes behind whole, a write that was cut off
	damage  []string // what is wrong before whole
}

// mostDamage is how many damages of a file are described one by one.
const mostDamage = 10

// reader reads one file of the ledger.
type reader struct {
	content
	add     func(recordKind, id)
	at      int64   // where the next record begins
	count   int     // records that a snapshot says it has
	badHead bool    // the head does not hold
	bad     []int64 // the first of the records that do not hold, since the last one that does
	badRun  int     // how many these are
	damaged int     // records that do not hold, with one that does behind them
}

// readRecords gives each record of r to add.
func readRecords(r io.Reader, add func(recordKind, id)) (content, error) {
	f := reader{add: add}
	buf := make([]byte, 4096*recordSize)
	for {
		n, err := io.ReadFull(r, buf)
		for b := buf[:n]; len(b) >= recordSize; b = b[recordSize:] {
			f.next(b[:recordSize])
			f.at += recordSize
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			f.end(f.at + int64(n%recordSize))
			return f.content, nil
		}
		if err != nil {
			return f.content, err
		}
	}
}

func (f *reader) next(b []byte) {
	if f.at == 0 {
		f.kind, f.count = readHead(b)
		f.badHead = f.kind == 0
		if !f.badHead {
			f.whole = recordSize
		}
		return
	}
	kind, i, ok := readRecord(b)
	if !ok {
		if f.badRun++; len(f.bad) < mostDamage {
			f.bad = append(f.bad, f.at)
		}
		return
	}
	for _, at := range f.bad {
		if len(f.damage) < mostDamage {
			f.damage = append(f.damage, fmt.Sprintf("the record at byte %d does not hold", at))
		}
	}
	f.damaged += f.badRun
	f.bad, f.badRun = f.bad[:0], 0
	f.whole = f.at + recordSize
	f.records++
	f.add(kind, i)
}

// end looks at the whole file, which has size bytes.
func (f *reader) end(size int64) {
	f.torn = size - f.whole
	if f.damaged > len(f.damage) {
		f.damage = append(f.damage, fmt.Sprintf("%d records in all do not hold", f.damaged))
	}
	if f.badHead && f.records > 0 {
		f.damage = append(f.damage, "its head does not hold")
	}
	if f.kind == snapshotFile && f.records+f.damaged != f.count {
		f.damage = append(f.damage, fmt.Sprintf("it has %d records, and was written with %d", f.records+f.damaged, f.count))
	}
}

func readHead(b []byte) (kind fileKind, count int) {
	if !sealed(b) || !bytes.HasPrefix(b, []byte(ledgerHead)) {
		return 0, -1
	}
	kind = fileKind(b[len(ledgerHead)])
	if kind != logFile && kind != snapshotFile {
		return 0, -1
	}
	return kind, int(binary.LittleEndian.Uint64(b[12:]))
}

func readRecord(b []byte) (kind recordKind, i id, ok bool) {
	if b[0] != 0xB9 || b[1] != 0x17 || !sealed(b) {
		return 0, id{}, false
	}
	kind = recordKind(b[2])
	copy(i[:], b[4:])
	return kind, i, kind == acceptedRecord || kind == endedRecord
}
