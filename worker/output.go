package worker

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/protocol"
)

// Progress tells the host how far the task of ctx is: fraction from 0 to 1, and
// a note for people. It is sent at once, which costs a system call. Outside of a
// worker, and after the handler has returned, it does nothing. It may be called
// from any goroutine.
func Progress(ctx context.Context, fraction float64, note string) {
	if c := taskOf(ctx); c != nil {
		c.progress(fraction, note)
	}
}

// Logger returns a logger whose lines go to the host with the number of the
// task of ctx. They are sent at once, which costs a system call each; a line
// over 8192 bytes is cut. Outside of a worker it returns slog.Default(). It may be
// used from any goroutine, and after the handler has returned.
func Logger(ctx context.Context) *slog.Logger {
	c := taskOf(ctx)
	if c == nil {
		return slog.Default()
	}
	return slog.New(&lineHandler{task: c})
}

func (c *taskContext) progress(fraction float64, note string) {
	h := protocol.Header{Kind: protocol.Progress, ID: c.id}
	// The comparison also catches what is not a number.
	if fraction > 0 {
		h.Aux = uint32(math.Round(min(fraction, 1) * protocol.ProgressWhole))
	}
	c.mu.Lock() // held until the frame is added: no progress behind the answer
	if c.answered {
		c.mu.Unlock()
		return
	}
	c.session.answers.addText(h, cut(note, protocol.MaxLogText))
	c.mu.Unlock()
	_ = c.session.answers.flush() // the error stays, and the loop sees it
}

func (c *taskContext) log(level int, stream uint32, text string) {
	code := min(max(level+protocol.LevelZero, 0), math.MaxUint16)
	h := protocol.Header{Kind: protocol.Log, Code: uint16(code), ID: c.id, Aux: stream}
	for line := range strings.SplitSeq(text, "\n") {
		c.session.answers.addText(h, cut(line, protocol.MaxLogText))
	}
	_ = c.session.answers.flush() // the error stays, and the loop sees it
}

// lineHandler writes a record as its message and its attributes as key=value;
// the level and the task have places of their own in LOG, and the host notes the
// time.
type lineHandler struct {
	task   *taskContext
	fixed  string // the attributes of WithAttrs, as text
	prefix string // the groups of WithGroup, each with a full stop
}

// Enabled compares with Config.Level.
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

// WithGroup puts the attributes that follow into a group.
func (l *lineHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	return &lineHandler{l.task, l.fixed, l.prefix + name + "."}
}

// appendAttr appends " key=value"; what would be hard to read is quoted.
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
