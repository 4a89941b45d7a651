package process

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// silentFor is how long a worker of the protocol Lines may owe an answer before
// the pool looks what it does.
const silentFor = 500 * time.Millisecond

// ErrUnanswered is the cause of the end of a worker (Lines) that has read all its
// input, waits for more, and owes an answer.
var ErrUnanswered = errors.New("it has read the line and does not answer: it is probably buffering its output " +
	"(use sed -u, grep --line-buffered, jq --unbuffered, python3 -u, or stdbuf -oL), or does not answer every line")

// tendSilence finds a filter that has dealt with all its input and still owes
// an answer, so that its caller does not wait for ever. Pool.mu is held.
func (p *Pool) tendSilence(w *worker, now int64) {
	c := w.flight[int(w.oldest)&(len(w.flight)-1)]
	if c == nil {
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
	if n, err := w.in.Unread(); err != nil || n > 0 || !confine.WaitsForInput(w.pid) {
		return
	}
	w.hint = ErrUnanswered
	if w.served == 0 {
		p.failures = breakAfter - 1 // another one would do the same
	}
	p.kill(w, BySilence, nil)
}
