package cli

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// digest is the beginning of the SHA-256 of a payload. With the task's position in
// the input it identifies the task.
type digest uint64

func digestOf(payload []byte) digest {
	sum := sha256.Sum256(payload)
	return digest(binary.BigEndian.Uint64(sum[:]))
}

func (d digest) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(d))
	return hex.EncodeToString(b[:])
}

// entry has the fields of a line in a job log that are needed to resume a run.
type entry struct {
	Index   int64  `json:"index"`
	Hash    string `json:"hash"`
	Outcome string `json:"outcome"`
}

// history has the results of earlier runs from a job log: nine bytes per task.
type history struct {
	ok     []bool // by index minus one
	hashes []digest
}

// done reports whether the task at index ended well, and the digest of its payload.
func (h *history) done(index int64) (digest, bool) {
	if h == nil || index > int64(len(h.ok)) || !h.ok[index-1] {
		return 0, false
	}
	return h.hashes[index-1], true
}

func (h *history) add(e entry) error {
	raw, err := hex.DecodeString(e.Hash)
	if err != nil || len(raw) != 8 {
		return fmt.Errorf("hash is %q: it must have 16 hexadecimal digits", e.Hash)
	}
	const most = 1 << 40
	if e.Index < 1 || e.Index > most || e.Index > int64(len(h.ok))+1<<24 {
		return fmt.Errorf("index is %d, which cannot follow the lines before it", e.Index)
	}
	for int64(len(h.ok)) < e.Index {
		h.ok, h.hashes = append(h.ok, false), append(h.hashes, 0)
	}
	h.ok[e.Index-1] = e.Outcome == "ok" // the last line about a task counts
	h.hashes[e.Index-1] = digest(binary.BigEndian.Uint64(raw))
	return nil
}

// readHistory reads a job log. size is the length of its complete lines: a killed run
// may have left an incomplete line after them.
func readHistory(from io.Reader) (h *history, size int64, err error) {
	h = &history{}
	r := bufio.NewReaderSize(from, 64<<10)
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return h, size, nil
		}
		if err != nil {
			return nil, 0, err
		}
		size += int64(len(line))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e entry
		if err = json.Unmarshal(line, &e); err == nil {
			err = h.add(e)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d is not a line of a job log: %w", number, err)
		}
	}
}

// joblog writes a line about each task. It is written after the results: a task that
// it calls ok has been delivered.
type joblog struct {
	options *options
	file    *os.File
	out     *bufio.Writer
	line    []byte
	known   *history // nil unless an earlier run is resumed
}

// openJoblog creates a log, or continues one. It never overwrites an existing log,
// which may be all that is left of hours of work.
func openJoblog(o *options) (*joblog, error) {
	name, resume := o.joblog, o.resume
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // the umask decides, as it does for > in a shell
	if err != nil {
		return nil, fmt.Errorf("--joblog: %w", err)
	}
	l := &joblog{options: o, file: file, out: bufio.NewWriterSize(file, 64<<10)}
	if err := l.begin(name, resume); err != nil {
		_ = file.Close()
		return nil, err
	}
	return l, nil
}

func (l *joblog) begin(name string, resume bool) error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("--joblog: %w", err)
	}
	if !resume {
		if info.Mode().IsRegular() && info.Size() > 0 {
			return fmt.Errorf("--joblog %s: the file exists: add --resume to continue where it stopped, or remove it", name)
		}
		return nil
	}
	known, size, err := readHistory(l.file)
	if err != nil {
		return fmt.Errorf("--joblog %s: %w", name, err)
	}
	l.known = known
	if size < info.Size() {
		if err := l.file.Truncate(size); err != nil {
			return fmt.Errorf("--joblog: %w", err)
		}
	}
	if _, err := l.file.Seek(size, io.SeekStart); err != nil && info.Mode().IsRegular() {
		return fmt.Errorf("--joblog: %w", err)
	}
	return nil
}

// joblogShort is the length up to which input and command are logged by default.
const joblogShort = 256

// logs reports whether input and command of the item are logged.
func (o *options) logs(it *item) bool {
	return o.joblog != "" && (o.joblogInput || o.joblogShort && len(it.line) <= joblogShort)
}

// appendSource appends the input and the command of the task.
func (o *options) appendSource(b []byte, it *item) []byte {
	if !it.logged {
		return b
	}
	b = appendText(append(b, `,"input":`...), it.line)
	words := o.commandOf(it)
	size := 0
	for _, w := range words {
		size += len(w)
	}
	if size > joblogShort && !o.joblogInput {
		return b
	}
	b = append(b, `,"command":[`...)
	for i, w := range words {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, w)
	}
	return append(b, ']')
}

// add adds the line of an ended task to the buffer.
func (l *joblog) add(it *item) error {
	b := append(l.line[:0], `{"index":`...)
	b = strconv.AppendInt(b, it.index, 10)
	b = append(b, `,"hash":"`...)
	b = append(b, it.hash.String()...)
	b = append(b, '"')
	if it.name != nil {
		b = appendText(append(b, `,"name":`...), it.name)
	}
	b = l.options.appendSource(b, it)
	b = appendOutcome(b, it)
	b = append(b, `,"start":"`...)
	b = it.began().UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","end":"`...)
	b = it.ended.UTC().AppendFormat(b, time.RFC3339Nano)
	l.line = append(b, "\"}\n"...)
	_, err := l.out.Write(l.line)
	return err
}

// flush writes the buffered lines to the file, so that they survive this process.
func (l *joblog) flush() error { return l.out.Flush() }

func (l *joblog) close() error { return errors.Join(l.out.Flush(), l.file.Close()) }
