package worker

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/protocol"
)

// Progress reports the progress of the task of ctx to the host: a fraction from 0 to 1, and
// a note for people. It is sent immediately, which costs a system call. Outside a worker,
// and after the handler has returned, it does nothing. It may be called from any goroutine.
func Progress(ctx context.Context, fraction float64, note string) {
	if c := taskOf(ctx); c != nil {
		c.progress(fraction, note)
	}
}

// Logger returns a logger that sends its lines to the host, with the number of the task of
// ctx. Each line is sent immediately, which costs a system call. Lines over 8192 bytes are
// cut. Outside a worker it returns slog.Default(). It may be used from any goroutine, even
// after the handler has returned.
func Logger(ctx context.Context) *slog.Logger {
	c := taskOf(ctx)
	if c == nil {
		return slog.Default()
	}
	return slog.New(&lineHandler{task: c})
}

func (c *taskContext) progress(fraction float64, note string) {
	h := protocol.Header{Kind: protocol.Progress, ID: c.id}
	// The comparison is also false for NaN.
	if fraction > 0 {
		h.Aux = uint32(math.Round(min(fraction, 1) * protocol.ProgressWhole))
	}
	c.mu.Lock() // held until the frame is added, so that no progress follows the answer
	if c.answered {
		c.mu.Unlock()
		return
	}
	c.session.answers.addText(h, cut(note, protocol.MaxLogText))
	c.mu.Unlock()
	_ = c.session.answers.flush() // the loop sees the error too
}

// chunk sends a piece of the result. Those beyond the maximum are dropped.
func (c *taskContext) chunk(piece []byte) {
	h := protocol.Header{Kind: protocol.Chunk, ID: c.id}
	c.mu.Lock() // held until the frames are added, so that no piece follows the answer
	if c.answered {
		c.mu.Unlock()
		return
	}
	c.sent += uint64(len(piece))
	if c.output == 0 || c.sent <= c.output {
		for part := range slices.Chunk(piece, min(protocol.MaxChunk, max(c.session.maxFrame, 1))) {
			c.session.answers.add(h, part)
		}
	}
	c.mu.Unlock()
	_ = c.session.answers.flush() // the loop sees the error too
}

func (c *taskContext) log(level int, stream uint32, text string) {
	code := min(max(level+protocol.LevelZero, 0), math.MaxUint16)
	h := protocol.Header{Kind: protocol.Log, Code: uint16(code), ID: c.id, Aux: stream}
	for line := range strings.SplitSeq(text, "\n") {
		c.session.answers.addText(h, cut(line, protocol.MaxLogText))
	}
	_ = c.session.answers.flush() // the loop sees the error too
}

// lineHandler formats a record as its message and its attributes as key=value. LOG has
// separate fields for the level and the task, and the host sets the time.
type lineHandler struct {
	task   *taskContext
	fixed  string // attributes of WithAttrs, as text
	prefix string // groups of WithGroup, each followed by a full stop
}

// Enabled compares the level with Config.Level.
func (l *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= l.task.session.level.Level()
}

// Handle sends the record.
func (l *lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := append([]byte(r.Message), l.fixed...)
	r.Attrs(func(a slog.Attr) bool {
		line = appendAttr(line, l.prefix, a)
		return true
	})
	l.task.log(int(r.Level), protocol.StreamLog, string(line))
	return nil
}

// WithAttrs adds attributes to all lines.
func (l *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fixed := []byte(l.fixed)
	for _, a := range attrs {
		fixed = appendAttr(fixed, l.prefix, a)
	}
	return &lineHandler{l.task, string(fixed), l.prefix}
}

// WithGroup puts further attributes into a group.
func (l *lineHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	return &lineHandler{l.task, l.fixed, l.prefix + name + "."}
}

// appendAttr appends " key=value". Values that would be ambiguous are quoted.
func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			b = appendAttr(b, prefix, member)
		}
		return b
	}
	if a.Equal(slog.Attr{}) {
		return b // as all handlers do
	}
	b = append(append(b, ' '), prefix+a.Key...)
	b = append(b, '=')
	text := value.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r == '"' || r == '=' || !strconv.IsPrint(r) || r == ' ' }) {
		return strconv.AppendQuote(b, text)
	}
	return append(b, text...)
}
