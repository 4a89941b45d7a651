// Package logs writes the daemon's log without blocking its callers: records go into
// a bounded buffer, which one goroutine writes.
//
// When the writer is too slow, records are dropped and counted, and a line reports
// the count as soon as lines are written again. A part of the buffer is reserved for
// warnings and errors, so that a flood of output from workers does not displace them.
// A crash of the program loses what is in the buffer; end it with [Log.Close].
//
// The writing goroutine formats values as text or JSON. Values that may change in the
// meantime (pointers, maps and the like) are formatted at once. Values whose keys
// suggest a secret are left out, see secret.go.
package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultBuffer is the default number of records that wait for a slow writer.
const DefaultBuffer = 2048

// batchBytes is the approximate size of one write.
const batchBytes = 32 << 10

// Config configures a Log. Only Writer is required.
type Config struct {
	// Writer receives whole lines, from one goroutine.
	Writer io.Writer
	// JSON writes one JSON object per line instead of text, with durations in
	// seconds.
	JSON bool
	// Level is the lowest level that is logged; [Log.SetLevel] changes it.
	Level slog.Level
	// Buffer is the maximum number of records that wait for a slow writer, at least
	// 8; 0 means DefaultBuffer. A quarter is reserved for warnings and errors.
	Buffer int
}

// Log is a buffer of log records and the goroutine that writes them. All methods
// are safe for concurrent use.
type Log struct {
	out     io.Writer
	json    bool
	level   slog.LevelVar
	first   slog.Handler // formats into text
	text    bytes.Buffer // used only by the writing goroutine
	dropped atomic.Uint64

	wake chan struct{} // signals that the empty ring got a record, or that closed was set
	done chan struct{} // closed when the writing goroutine has ended

	mu     sync.Mutex
	closed bool // guarded by mu
	// ring holds count records from head on. Those entries belong to the writing
	// goroutine until it moves head; the others belong to the holder of mu. Head and
	// count are guarded by mu.
	ring        []entry
	head, count int
}

// entry is a record and the handler that formats it.
type entry struct {
	by     slog.Handler
	record slog.Record
}

// New returns a log. It must be ended with Close. The error lists all faults of c.
func New(c Config) (*Log, error) {
	var errs []error
	if c.Writer == nil {
		errs = append(errs, errors.New("logs: Writer is nil: set it, for example to os.Stderr"))
	}
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Buffer < 8 {
		errs = append(errs, fmt.Errorf("logs: Buffer is %d: set at least 8, or 0 for %d", c.Buffer, DefaultBuffer))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l := &Log{
		out: c.Writer, json: c.JSON, ring: make([]entry, c.Buffer),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.level.Set(c.Level)
	options := &slog.HandlerOptions{Level: &l.level, ReplaceAttr: blank}
	if c.JSON {
		options.ReplaceAttr = blankJSON
		l.first = slog.NewJSONHandler(&l.text, options)
	} else {
		l.first = slog.NewTextHandler(&l.text, options)
	}
	go l.write() // started here; ends after Close, which waits for it
	return l, nil
}

// Handler returns a handler that logs here.
func (l *Log) Handler() slog.Handler { return &handler{log: l, by: l.first} }

// SetLevel changes the lowest level that is logged.
func (l *Log) SetLevel(level slog.Level) { l.level.Set(level) }

// Level returns the lowest level that is logged.
func (l *Log) Level() slog.Level { return l.level.Level() }

// Dropped returns how many records were not written: the buffer was full, the
// writer failed, or the log was closed.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Close refuses further records, and waits until all waiting ones are written. If ctx
// ends first, Close returns an error that wraps its cause; the rest is written as
// soon as the writer allows. Close may be called more than once.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.nudge()
	select {
	case <-l.done:
		return nil
	default:
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("logs: %d lines are not written yet, the writer is too slow: %w", l.count, context.Cause(ctx))
	}
}

// nudge wakes the writing goroutine.
func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // already signaled
	}
}

// put adds a record, or counts it as dropped.
func (l *Log) put(by slog.Handler, r *slog.Record) {
	room := len(l.ring)
	if r.Level < slog.LevelWarn {
		room -= room / 4
	}
	l.mu.Lock()
	if l.closed || l.count >= room {
		l.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	at := l.head + l.count
	if at >= len(l.ring) {
		at -= len(l.ring)
	}
	l.ring[at] = entry{by, *r}
	l.count++
	first := l.count == 1
	l.mu.Unlock()
	if first {
		l.nudge()
	}
}

// write is the writing goroutine.
func (l *Log) write() {
	defer close(l.done)
	var reported uint64 // dropped records reported so far
	var last time.Time
	for {
		l.mu.Lock()
		head, count, closed := l.head, l.count, l.closed
		l.mu.Unlock()
		if count > 0 {
			l.batch(head, count)
		}
		// Report a flood that lasts once a second, and one that has passed at once.
		if n := l.dropped.Load(); n > reported && (count == 0 || time.Since(last) >= time.Second) {
			if l.reportLoss(n - reported) {
				reported = n
			}
			last = time.Now()
		}
		if count > 0 {
			continue
		}
		if closed {
			return
		}
		<-l.wake
	}
}

// batch formats enough records for a large write, frees their entries, and writes them.
// Records that cannot be written count as dropped.
func (l *Log) batch(head, count int) {
	l.text.Reset()
	n := 0
	for n < count && l.text.Len() < batchBytes {
		e := &l.ring[(head+n)%len(l.ring)]
		if !format(e) {
			l.dropped.Add(1)
		}
		*e = entry{} // release what the record holds
		n++
	}
	l.mu.Lock()
	l.head = (l.head + n) % len(l.ring)
	l.count -= n
	l.mu.Unlock()
	if !l.flush() {
		l.dropped.Add(uint64(n))
	}
}

// reportLoss writes how many records were dropped.
func (l *Log) reportLoss(n uint64) bool {
	l.text.Reset()
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were dropped: the writer of the log is too slow", 0)
	r.AddAttrs(slog.Uint64("count", n))
	return format(&entry{l.first, r}) && l.flush()
}

// format appends a record to the text of its log. If a value panics, only its own
// record is lost.
func format(e *entry) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return e.by.Handle(context.Background(), e.record) == nil
}

// flush writes the text.
func (l *Log) flush() (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // a panic of the writer counts as a failure
		}
	}()
	if l.text.Len() == 0 {
		return true
	}
	_, err := l.out.Write(l.text.Bytes())
	return err == nil
}

// handler is the handler of loggers. It is immutable.
type handler struct {
	log *Log
	by  slog.Handler
}

// Enabled reports whether a level is logged.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.log.level.Level()
}

// Handle never waits for the writer, and never fails.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	r = h.log.freeze(r)
	h.log.put(h.by, &r)
	return nil
}

// WithAttrs formats attrs at once.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	frozen := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		frozen[i] = h.log.freezeAttr(a)
	}
	return &handler{h.log, h.by.WithAttrs(frozen)}
}

// WithGroup adds later attributes to a group.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{h.log, h.by.WithGroup(name)}
}
