package process

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// silentFor is how long a worker of the protocol Lines may owe an answer before
// the pool looks what it does.
const silentFor = 500 * time.Millisecond

// errBuffered tells users what is wrong with a filter that does not answer.
var errBuffered = errors.New("the worker has read its input, waits for more, and has not answered: " +
	"it is probably buffering its output (cure: sed -u, grep --line-buffered, jq --unbuffered, python3 -u, " +
	"mawk -W interactive, perl with $|=1, or stdbuf -oL before the command), or it does not answer every line")

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
	w.hint = errBuffered
	if w.served == 0 {
		p.failures = breakAfter - 1 // another one would do the same
	}
	p.kill(w, BySilence, nil)
}
