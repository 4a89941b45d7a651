package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// A record stores a job, an outcome or another thing: a version byte, a CRC-32C, then
// fields. A field is a tag, a length and that many bytes; numbers are varints as in
// encoding/binary. The checksum also covers the id of the job, so that a record in the
// wrong place is detected. Unknown tags are skipped, which lets a later version add
// fields. The first five bytes stay the same in every later version.

// The constants of all records.
const (
	// Version is the first byte of each record, and head the size of version and
	// checksum.
	Version = 1
	head    = 5
	// MostPairs bounds repeated fields, so that a damaged record costs little memory.
	MostPairs = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordWriter builds a record.
type recordWriter struct{ b []byte }

func newRecord(capacity int) recordWriter {
	b := make([]byte, head, head+capacity)
	b[0] = Version
	return recordWriter{b}
}

func (w *recordWriter) bytes(tag uint64, v []byte) {
	if len(v) == 0 {
		return
	}
	w.b = binary.AppendUvarint(w.b, tag)
	w.b = binary.AppendUvarint(w.b, uint64(len(v)))
	w.b = append(w.b, v...)
}

func (w *recordWriter) text(tag uint64, v string) {
	if v == "" {
		return
	}
	w.b = binary.AppendUvarint(w.b, tag)
	w.b = binary.AppendUvarint(w.b, uint64(len(v)))
	w.b = append(w.b, v...)
}

func (w *recordWriter) number(tag, v uint64) {
	if v == 0 {
		return
	}
	w.b = binary.AppendUvarint(w.b, tag)
	var n [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(n[:], v)
	w.b = append(w.b, byte(k))
	w.b = append(w.b, n[:k]...)
}

func (w *recordWriter) flag(tag uint64, v bool) {
	if v {
		w.number(tag, 1)
	}
}

// moment stores a time to the microsecond; a zero time is not stored.
func (w *recordWriter) moment(tag uint64, t time.Time) {
	switch {
	case t.IsZero():
	case t.After(lastMoment):
		w.number(tag, uint64(lastMoment.UnixMicro()))
	default:
		w.number(tag, uint64(max(t.UnixMicro(), 1)))
	}
}

// lastMoment is stored for every later time; the start of 1970 is stored for every
// earlier one. Both are as good as never and as long ago.
var lastMoment = time.UnixMicro(math.MaxInt64)

// code stores an exit code, which is -1 for none.
func (w *recordWriter) code(tag uint64, v int) {
	w.number(tag, uint64(min(max(v, -1), math.MaxUint32)+1))
}

// span stores a duration in nanoseconds; a negative one is not stored.
func (w *recordWriter) span(tag uint64, d time.Duration) {
	if d > 0 {
		w.number(tag, uint64(d))
	}
}

// pair stores a key and its value under one tag.
func (w *recordWriter) pair(tag uint64, key, value string) {
	w.b = binary.AppendUvarint(w.b, tag)
	w.b = binary.AppendUvarint(w.b, uint64(uvarintLen(uint64(len(key)))+len(key)+len(value)))
	w.b = binary.AppendUvarint(w.b, uint64(len(key)))
	w.b = append(w.b, key...)
	w.b = append(w.b, value...)
}

// tick stores the name of a schedule and the moment of a tick.
func (w *recordWriter) tick(tag uint64, schedule string, at time.Time) {
	if schedule != "" {
		w.pair(tag, schedule, strconv.FormatInt(at.UnixMicro(), 10))
	}
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// seal writes the checksum, which covers id too, and returns the record.
func (w *recordWriter) seal(id string) []byte {
	binary.LittleEndian.PutUint32(w.b[1:], checksum(id, w.b))
	return w.b
}

func checksum(id string, record []byte) uint32 {
	var b [32]byte
	sum := crc32.Update(0, castagnoli, append(b[:0], id...))
	return crc32.Update(sum, castagnoli, record[head:])
}

// field is one field of a record; v is a part of the record.
type field struct {
	tag uint64
	v   []byte
}

// readRecord checks the record of the job id and calls each for every field. It stops at
// the first error of each.
func readRecord(id string, b []byte, each func(field) error) error {
	if len(b) < head {
		return fmt.Errorf("%w: it has %d bytes", job.ErrDamaged, len(b))
	}
	if want := binary.LittleEndian.Uint32(b[1:]); want != checksum(id, b) {
		return fmt.Errorf("%w: checksum %08x instead of %08x", job.ErrDamaged, checksum(id, b), want)
	}
	switch {
	case b[0] > Version:
		return newer{b[0]}
	case b[0] < Version:
		return fmt.Errorf("%w: its version is %d, and the first one was %d", job.ErrDamaged, b[0], Version)
	}
	return readFields(b[head:], each)
}

// newer is the error for a record of a later version. To callers that don't handle it
// apart it is damage: they can read as little of the record.
type newer struct{ version byte }

func (n newer) Error() string {
	return fmt.Sprintf("%v: its version is %d, but this program reads version %d", job.ErrNewer, n.version, Version)
}

func (n newer) Is(target error) bool { return target == job.ErrNewer || target == job.ErrDamaged }

// outcomeOf returns the outcome with a number. An unknown number comes from a later
// version, and is not damage.
func outcomeOf(v uint64) (bullpen.Outcome, error) {
	if v > math.MaxUint8 {
		return 0, fmt.Errorf("%w: it names an outcome %d", job.ErrDamaged, v)
	}
	return bullpen.Outcome(v), nil
}

func readFields(b []byte, each func(field) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("%w: a tag is not a number", job.ErrDamaged)
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return fmt.Errorf("%w: field %d is cut off", job.ErrDamaged, tag)
		}
		if err := each(field{tag, b[n : n+int(size)]}); err != nil {
			return err
		}
		b = b[n+int(size):]
	}
	return nil
}

func (f field) number() (uint64, error) {
	v, n := binary.Uvarint(f.v)
	if n <= 0 || n != len(f.v) {
		return 0, fmt.Errorf("%w: field %d is not a number", job.ErrDamaged, f.tag)
	}
	return v, nil
}

// pair reads a key and its value.
func (f field) pair() (key, value string, err error) {
	size, n := binary.Uvarint(f.v)
	if n <= 0 || size > uint64(len(f.v)-n) {
		return "", "", fmt.Errorf("%w: field %d is not a pair", job.ErrDamaged, f.tag)
	}
	return string(f.v[n : n+int(size)]), string(f.v[n+int(size):]), nil
}

// tick reads the name of a schedule and the moment of a tick.
func (f field) tick(schedule *string, at *time.Time) error {
	name, moment, err := f.pair()
	if err != nil {
		return err
	}
	micro, err := strconv.ParseInt(moment, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: field %d has no moment", job.ErrDamaged, f.tag)
	}
	*schedule, *at = name, time.UnixMicro(micro)
	return nil
}

// into stores the field's number in the variable that to points to.
func (f field) into(to any) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	const most = 1<<63 - 1
	if v > most {
		return fmt.Errorf("%w: field %d is too large", job.ErrDamaged, f.tag)
	}
	switch to := to.(type) {
	case *uint64:
		*to = v
	case *int64:
		*to = int64(v)
	case *int:
		*to = int(v)
	case *bool:
		*to = v != 0
	case *time.Duration:
		*to = time.Duration(v)
	case *time.Time:
		*to = time.UnixMicro(int64(v))
	case *bullpen.Outcome:
		*to, err = outcomeOf(v)
		return err
	default:
		return fmt.Errorf("field %d: no way to read a number into %T", f.tag, to)
	}
	return nil
}
