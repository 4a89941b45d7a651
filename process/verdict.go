package process

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// maxDeaths is how many workers may end with a task assigned that, by their own
// account, none of them had started. A hostile worker may withhold that it started the
// task.
const maxDeaths = 3

// verdicts decides the fate of the tasks assigned to w, which has ended. Tasks that
// were not started go back to the queue; verdicts ends and returns the others. Pool.mu
// is held.
func (p *Pool) verdicts(w *worker) (ended []*call) {
	var unstarted []*call
	number := w.oldest
	for range len(w.flight) {
		c := w.flight[int(number)&(len(w.flight)-1)]
		if c != nil && c.number == number {
			switch v := w.verdict(c); {
			case v == notStarted && w.written(c):
				// A hostile worker may have run it all the same.
				if c.deaths++; c.deaths < p.config.deaths {
					unstarted = append(unstarted, c)
					break
				}
				ended = append(ended, p.convict(w, c)...)
			case v == notStarted:
				c.replays++
				unstarted = append(unstarted, c)
			case v == suspect:
				ended = append(ended, p.convict(w, c)...)
			default:
				ended = append(ended, p.lose(w, c)...)
			}
		}
		if number == w.next {
			break
		}
		number = protocol.Next(number)
	}
	for _, c := range slices.Backward(unstarted) {
		w.drop(c)
		p.replay(c)
	}
	w.pending = nil
	return ended
}

// verdict is what is known of a task whose worker died.
type verdict uint8

const (
	notStarted verdict = iota
	suspect            // it was running
	unknown            // it had ended, or its state cannot be determined
)

// verdict determines how far c had come. Pool.mu is held.
func (w *worker) verdict(c *call) verdict {
	if !w.written(c) {
		return notStarted
	}
	if c.chunks != nil {
		return suspect // whatever the worker says: its caller may have seen some
	}
	return w.driver.verdict(c)
}

// convict ends a task because its worker died: the task was running, or too many
// workers died while it was assigned to them. Pool.mu is held.
func (p *Pool) convict(w *worker, c *call) []*call {
	w.drop(c)
	te := c.failed(w, bullpen.Crashed, w.fault)
	switch {
	case w.starved():
		te.Outcome, te.Err = bullpen.Memory, &MemoryError{Bound: w.bound, Peak: w.usage.Peak}
	case errors.Is(w.fault, wire.ErrLong):
		te.Outcome = bullpen.Output
	case w.fault != nil:
		te.Outcome = bullpen.Protocol
	case w.killed && w.cause == BySilence:
		te.Outcome, te.Err = bullpen.Protocol, errNoAnswer
	case w.killed && c.cause != nil && (c == w.victim || c.asked):
		te.Outcome, te.Err = reason(c.cause), c.cause
	case w.killed && w.cause == ByEnd:
		te.Outcome, te.Err = bullpen.Canceled, bullpen.ErrClosed
	}
	te.Retryable = te.Outcome != bullpen.Output
	if c.deaths >= p.config.deaths {
		te.Err = &denied{c.deaths, te.Err}
	}
	w.describe(te)
	return p.endAll(c, bullpen.Result{Stats: w.statsOf(c)}, te)
}

// denied is the cause of the end of a task whose workers died too often. None of them
// had reported that the task started.
type denied struct {
	deaths int
	last   error // why the last of them ended; nil if unknown
}

func (d *denied) Error() string {
	s := fmt.Sprintf("%d workers ended while they had this task, and none had reported its start", d.deaths)
	if d.last != nil {
		s += ": " + d.last.Error()
	}
	return s
}

func (d *denied) Unwrap() error { return d.last }

// lose ends a task whose result is unknown. Pool.mu is held.
func (p *Pool) lose(w *worker, c *call) []*call {
	w.drop(c)
	te := c.failed(w, bullpen.Lost, errors.New("the worker ended before it answered"))
	if w.hint != nil {
		te.Err = w.hint
	}
	w.describe(te)
	return p.endAll(c, bullpen.Result{Stats: w.statsOf(c)}, te)
}

func (w *worker) statsOf(c *call) bullpen.Stats {
	return bullpen.Stats{
		Waited: time.Duration(c.sent - c.accepted), Worker: w.name, PeakMemory: max(w.exit.MaxRSS, w.usage.Peak),
		Ran: time.Duration(max(0, w.pool.now()-max(c.started, c.sent))),
	}
}

// describe adds the exit of the worker to te.
func (w *worker) describe(te *bullpen.TaskError) {
	te.ExitCode = w.exit.Code
	if w.exit.Signal != 0 {
		te.ExitCode, te.Signal = -1, w.exit.Signal.String()
	}
	te.Detail = w.tail.text()
}
