package wasm

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

const (
	// longestLine is where a line of output is cut.
	longestLine = 8 << 10
	// tailBytes is how much of the last output an error has.
	tailBytes = 4 << 10
)

// stderr is what a guest prints for people. It makes lines of it, for the observer of the
// task and the logger, and keeps the last ones for the error of the task.
type stderr struct {
	instance *instance
	line     []byte // begun
	tail     []byte // whole lines, each with its line feed
}

func (w *stderr) reset() { w.line, w.tail = w.line[:0], w.tail[:0] }

func (w *stderr) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		w.instance.heed()
		piece := b[:min(len(b), longestLine-len(w.line))]
		end := bytes.IndexByte(piece, '\n')
		if end >= 0 {
			piece = piece[:end]
		}
		w.line = append(w.line, piece...)
		b = b[len(piece):]
		if end >= 0 {
			b = b[1:]
			w.flush()
		} else if len(w.line) == longestLine {
			w.flush()
		}
	}
	return n, nil
}

// flush ends a line.
func (w *stderr) flush() {
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(w.line, []byte{'\r'})), "\uFFFD")
	w.line = w.line[:0]
	w.tail = append(append(w.tail, text...), '\n')
	if over := len(w.tail) - tailBytes; over > 0 {
		// Whole lines, if there are several.
		if end := bytes.IndexByte(w.tail[over:len(w.tail)-1], '\n'); end >= 0 {
			over += end + 1
		}
		w.tail = append(w.tail[:0], w.tail[over:]...)
	}
	w.instance.say(bullpen.LogLine{Time: time.Now(), Stream: "stderr", Text: text})
}

// close ends the last line, which may lack its line feed.
func (w *stderr) close() {
	if len(w.line) > 0 {
		w.flush()
	}
}

// text returns the last lines.
func (w *stderr) text() string { return strings.TrimSuffix(string(w.tail), "\n") }

// last returns the last line that is not empty.
func (w *stderr) last() string {
	text := strings.TrimRight(string(w.tail), " \n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// record is a line for the logger.
type record struct {
	bullpen.LogLine

	task, id, instance string
}

// say passes a line of the running task to its observer and to the logger.
func (i *instance) say(line bullpen.LogLine) {
	t := &i.call.task
	if t.Observer != nil {
		t.Observer.Log(line)
	}
	if i.pool.log != nil {
		i.pool.said.Send(record{line, t.Name, t.ID, i.name})
	}
}

// log writes a line to the logger.
func (r record) log(logger *slog.Logger) {
	attrs := []slog.Attr{slog.String("text", r.Text), slog.String("instance", r.instance), slog.String("stream", r.Stream)}
	if r.task != "" {
		attrs = append(attrs, slog.String("task", r.task))
	}
	if r.id != "" {
		attrs = append(attrs, slog.String("id", r.id))
	}
	logger.LogAttrs(context.Background(), slog.Level(r.Level), "output", attrs...)
}
