package process

import (
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// end gives c an outcome other than a worker's answer. It reports whether c had none
// yet. Pool.mu is held; the caller delivers c after unlocking it.
func (p *Pool) end(c *call, r bullpen.Result, err error) bool {
	if from, e := c.state.MoveAny(taskEnded); e != nil {
		p.logs.fault(fmt.Errorf("second outcome for a task that is %v: %w", taskStates.States[from], e))
		return false
	}
	r.Stats.Deaths = c.deaths
	c.result, c.err = r, err
	byEnd := p.state.State() >= Stopping && errors.Is(err, bullpen.ErrClosed)
	switch o, started := bullpen.OutcomeOf(err); {
	case started:
		p.counters.outcomes[o]++
		if byEnd || o == bullpen.Lost && errors.Is(c.cause, bullpen.ErrClosed) {
			p.counters.aborted.running++
		}
	default:
		p.counters.neverStarted++
		if byEnd {
			p.counters.aborted.waiting++
		}
	}
	return true
}

// endLater is end for a caller that keeps Pool.mu: another goroutine delivers c.
func (p *Pool) endLater(c *call, err error) {
	for _, one := range p.endAll(c, bullpen.Result{}, err) {
		p.tasks.Go(func() { p.deliver(one) }) // ends when the outcome is delivered
	}
}

// deliver passes the outcome of c to its caller, once its observer has received its
// chunks and output or is too slow. c must have ended, and must not be used after deliver.
func (p *Pool) deliver(c *call) {
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.chunks == nil || !c.chunks.hold(c) {
		p.pass(c)
	}
}

// pass is deliver for a task whose chunks have been passed on.
func (p *Pool) pass(c *call) {
	if c.said == nil || !c.said.hold(c, p.tell) {
		p.tell(c)
	}
}

// tell passes the outcome of c to its caller.
func (p *Pool) tell(c *call) {
	switch {
	case c.done != nil:
		p.late.put(c)
		return
	case c.batch != nil:
		b := c.batch
		b.ended[c.index] = bullpen.Ended{Index: c.index, Task: c.task, Result: c.result, Err: c.err}
		c.recycle()
		if b.left.Add(-1) == 0 {
			close(b.ready)
		}
	default:
		c.ready <- struct{}{}
	}
	p.informed.Add(1)
}

// failed returns the error of a task that ran.
func (c *call) failed(w *worker, o bullpen.Outcome, err error) *bullpen.TaskError {
	te := &bullpen.TaskError{
		Outcome: o, Task: c.task.Name, ID: c.task.ID, Retryable: o != bullpen.Output, ExitCode: -1, Err: err,
	}
	if w != nil {
		te.Worker = w.name
	}
	return te
}

func tooLarge(size, bound int) error {
	return fmt.Errorf("the result has %d bytes, more than %d", size, bound)
}

// errorOf returns the error in an ERROR frame.
func (w *worker) errorOf(c *call, m *wire.Message) error {
	te := c.failed(w, bullpen.Outcome(m.Code), nil)
	te.Retryable = m.Flags&protocol.Final == 0 && te.Outcome != bullpen.Output
	pairs, err := protocol.ParseAllPairs(m.Body)
	if err != nil {
		te.Message = "the worker's error cannot be read: " + err.Error()
		return te
	}
	te.Type, _ = protocol.Lookup(pairs, "type")
	te.Message, _ = protocol.Lookup(pairs, "message")
	te.Stack, _ = protocol.Lookup(pairs, "stack")
	if te.Outcome == bullpen.Timeout || te.Outcome == bullpen.Canceled {
		te.Err = c.cause
		if c.cause != nil {
			te.Outcome = reason(c.cause)
			te.Retryable = te.Retryable && te.Outcome != bullpen.Output
		}
	}
	return te
}

// replay puts c, which was not started, back to the head of the queue, or ends it if
// another try is pointless. Pool.mu is held.
func (p *Pool) replay(c *call) {
	if c.members != nil {
		p.dissolve(c)
		return
	}
	if errors.Is(c.cause, errRunTime) {
		c.cause = nil // it had not started after all
	}
	switch {
	case c.cause != nil:
		p.endLater(c, c.cause)
	case p.state.State() >= Stopping:
		p.endLater(c, bullpen.ErrClosed)
	case c.returns >= maxReplays:
		p.endLater(c, fmt.Errorf("%w: workers gave this task back %d times", bullpen.ErrRefused, c.returns))
	case c.replays >= maxReplays:
		p.endLater(c, fmt.Errorf("%w: %d workers ended before this task could be sent to them", bullpen.ErrStart, c.replays))
	default:
		if err := c.state.Move(taskSent, taskWaiting); err != nil {
			p.logs.fault(err)
			return
		}
		c.worker, c.asked, c.started = nil, false, 0
		p.counters.replayed++
		p.queue.pushFront(c)
		p.wakeBy(0)
	}
}

// maxReplays bounds how often a task is sent again because its worker died before the
// task was sent, and how often because a worker gave it back.
const maxReplays = 10

// maxRecalls is how often a task is taken back from behind another one before it is
// given to a worker alone. What a worker has started is read from the shared page, so a
// hostile worker could have the task taken back every time and run it nevertheless.
const maxRecalls = 3

// alone reports whether c must be the only task of its worker until it is answered. A
// task that was assigned along with a bad one is then cleared by its answer, and a bad
// one is the only one to blame.
func (c *call) alone() bool { return c.deaths > 0 || c.recalls >= maxRecalls || c.redelivered }

var errNoAnswer = errors.New("the worker closed its end of the channel")
