package process

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
)

// silentFor is how long a filter may leave a task unanswered before the pool
// checks what the worker does.
const silentFor = 500 * time.Millisecond

// ErrUnanswered is the cause of the end of a Lines worker that has read all its input,
// waits for more, and has not answered a task.
var ErrUnanswered = errors.New("it has read the line but does not answer: it probably buffers its output (use sed -u, grep " +
	"--line-buffered, jq --unbuffered, python3 -u, or stdbuf -oL), or does not answer every line")

// tendSilence kills a filter that has read all its input but has not answered a task,
// so that its caller does not wait forever. Pool.mu is held.
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
	if n, err := w.in.Unread(); err != nil || n > 0 || !confine.WaitsForInput(w.pid) || w.unheard() {
		return
	}
	w.hint = ErrUnanswered
	if w.served == 0 {
		p.failures = breakAfter - 1 // another worker would do the same
	}
	p.kill(w, BySilence, nil)
}

// unheard reports whether w may have answered without the host knowing, as on a busy
// machine: the answer is in the pipe, or its reader waits for Pool.mu, which is held.
func (w *worker) unheard() bool {
	if !w.reading.TryLock() {
		return true
	}
	readable := true
	_ = w.out.Control(func(fd uintptr) { readable = wire.Readable(fd) }) // the reader sees the end of the pipe
	w.reading.Unlock()
	if w.turned.Load() {
		w.pool.tasks.Go(func() { // ends when it has read what there is
			if w.readTurned() {
				w.pool.hungUp(w) // its own reader may have missed the end
			}
		})
	}
	return readable
}
