package process

import (
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/internal/wire/lines"
	"github.com/bullpen-run/bullpen/protocol"
)

// silentFor is how long a filter may leave a task unanswered before the pool checks what
// the filter does.
const silentFor = 500 * time.Millisecond

// ErrUnanswered is the cause of the end of a Lines worker that has read all its input,
// waits for more, and has not answered a task.
var ErrUnanswered = errors.New("it has read the line but does not answer: it probably buffers its output (use sed -u, grep " +
	"--line-buffered, jq --unbuffered, python3 -u, or stdbuf -oL), or does not answer every line")

// ErrExtraLine is the cause of the end of a Lines worker that wrote an extra line, which
// answers no task. Earlier results of this worker may belong to other tasks.
var ErrExtraLine = protocol.Invalidf("the worker wrote an extra line, which answers no task")

// linesDriver drives a filter: one line in, one line out.
type linesDriver struct {
	stream
	codec lines.Codec
	last  uint32 // number of the task that was answered last; stream.reading guards it
}

func driveLines(w *worker) driver {
	return &linesDriver{stream: stream{base: base{w}}, codec: linesCodec(w.pool.config)}
}

func linesCodec(r *resolved) lines.Codec {
	end := byte('\n')
	if r.NUL {
		end = 0
	}
	return lines.Codec{End: end, Limit: r.Limits.Output}
}

// checkLine refuses a payload that is more than a line.
func checkLine(p *Pool, c *call) error {
	codec := linesCodec(p.config)
	return codec.Check(&c.task)
}

func (d *linesDriver) open(spec *confine.Spec, made *pipes) (err error) {
	if spec.Files, err = made.standard(); err != nil {
		return err
	}
	spec.Env = with(spec.Env, "PYTHONUNBUFFERED=1")
	return d.connect(made, d.decodeLines)
}

// converse takes the filter for ready: it cannot report that it is.
func (d *linesDriver) converse() {
	d.w.ready()
	d.read()
}

func (d *linesDriver) send() {
	for out, more := d.next(); more; out, more = d.next() {
		for _, c := range d.batch {
			out = d.codec.AppendTask(out, wire.Task{Task: &c.task})
			d.w.sentTo.Store(c.number)
		}
		if !d.write(out) {
			return
		}
	}
}

// decodeLines takes each line as the answer to the oldest task.
func (d *linesDriver) decodeLines() error {
	need := 0
	var fault error
	for d.start < d.end {
		m, n, least, err := d.codec.Next(d.buffer[d.start:d.end])
		if n == 0 || err != nil {
			need, fault = least, err
			break
		}
		d.start += n
		m.Number = protocol.Next(d.last)
		if protocol.Before(d.w.sentTo.Load(), m.Number) {
			fault = fmt.Errorf("%w: %.80q", ErrExtraLine, m.Body)
			break
		}
		d.last = m.Number
		d.answers.messages = append(d.answers.messages, m)
	}
	return d.decoded(need, fault)
}

// tend kills a filter that has read all its input but has not answered a task, so that
// its caller does not wait forever.
func (d *linesDriver) tend(now int64) {
	w, p := d.w, d.w.pool
	c := w.flight[int(w.oldest)&(len(w.flight)-1)]
	if w.count == 0 || c == nil {
		return
	}
	due := max(c.sent, w.answeredAt, w.lookedAt) + int64(silentFor)
	if now < due {
		p.wakeBy(due)
		return
	}
	w.lookedAt = now
	p.wakeBy(now + int64(silentFor))
	if w.writing || w.broken || len(w.pending) > 0 {
		return
	}
	if n, err := d.in.Unread(); err != nil || n > 0 || !confine.WaitsForInput(w.pid) || d.unheard() {
		return
	}
	w.hint = ErrUnanswered
	if w.served == 0 {
		p.failures = breakAfter - 1 // another worker would do the same
	}
	p.kill(w, BySilence, nil)
}

// verdict takes the bytes that the filter has not read, which are still in the pipe, for
// the tasks that were sent last.
func (d *linesDriver) verdict(c *call) verdict {
	w := d.w
	if w.fault != nil {
		return suspect
	}
	unread, err := d.in.Unread()
	if err != nil {
		return unknown
	}
	unread += d.unwritten
	for number := w.sentTo.Load(); unread > 0; number-- {
		other := w.flight[int(number)&(len(w.flight)-1)]
		if other == nil || other.number != number {
			break
		}
		unread -= len(other.task.Payload) + 1
		if unread >= 0 && other == c {
			return notStarted
		}
	}
	if c == w.victim {
		return suspect
	}
	return unknown
}
