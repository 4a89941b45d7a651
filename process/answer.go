package process

import (
	"errors"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// answers are answers of a worker, on their way to the callers.
type answers struct {
	messages []wire.Message
	calls    []*call // that they answer; nil for one taken back already
	returned []*call // those that come back unstarted
	more     bool    // more answers are likely to arrive soon
}

// answered accounts for the answers in in.messages, gives the worker its next tasks,
// and delivers the outcomes. Their numbers must be those of tasks that were sent, and
// the body of an error holds pairs as in an ERROR frame. Calls for the same worker must
// not overlap, nor a call with one that uses the bodies.
func (p *Pool) answered(w *worker, in *answers) error {
	now := p.now()
	var fault error
	in.calls, in.returned = in.calls[:0], in.returned[:0]
	p.mu.Lock()
	pace := w.pace(now, len(in.messages))
	for i := range in.messages {
		c, err := w.take(&in.messages[i])
		if err != nil {
			fault = err
			in.messages = in.messages[:i]
			break
		}
		in.calls = append(in.calls, c)
		if c == nil {
			continue
		}
		p.account(w, c, &in.messages[i], now, pace)
		if in.messages[i].Kind == protocol.Returned {
			in.returned = append(in.returned, c)
		}
	}
	w.answeredAt, w.lately = now, len(in.calls)
	in.more = w.lately > 1 && p.worthLingering()
	p.takeBack(w, in)
	p.afterAnswers(w, now)
	mine := fault == nil && p.claim(w)
	p.mu.Unlock()
	if mine {
		w.driver.send()
	}
	in.tell(w)
	return fault
}

// pace returns the estimated run time of each of n answers from a worker that does not
// report it, or -1 if the worker does.
func (w *worker) pace(now int64, n int) int64 {
	if w.pool.config.timed {
		return -1
	}
	begun := w.answeredAt
	if c := w.flight[int(w.oldest)&(len(w.flight)-1)]; c != nil {
		begun = max(begun, c.sent)
	}
	return max(now-begun, 0) / int64(n)
}

// take returns the task that m answers, no longer assigned to w. Pool.mu is held.
func (w *worker) take(m *wire.Message) (*call, error) {
	number := m.Number
	if m.Kind == protocol.Returned && w.paused && w.driver.returned(number) {
		return nil, nil
	}
	c := w.flight[int(number)&(len(w.flight)-1)]
	if c == nil || c.number != number || protocol.Before(w.sentTo.Load(), number) || m.Kind == protocol.Returned && c.chunks != nil {
		return nil, protocol.Invalidf("the worker sent %v for task %d, which it does not have", m.Kind, number)
	}
	w.drop(c)
	if number == w.oldest {
		w.oldest = protocol.Next(number)
	}
	return c, nil
}

// drop removes c from the tasks assigned to w. Pool.mu is held.
func (w *worker) drop(c *call) {
	w.flight[int(c.number)&(len(w.flight)-1)] = nil
	w.count--
	w.bytes -= c.weight()
	w.more -= c.tasks() - 1
	w.pool.inHand -= c.tasks()
	if len(c.task.Payload) >= protocol.ArenaMin {
		w.driver.forget(c.number)
	}
}

// account counts an answer and ends the task. Pool.mu is held.
func (p *Pool) account(w *worker, c *call, m *wire.Message, now, pace int64) {
	if m.Kind == protocol.Returned {
		return
	}
	n := c.tasks()
	w.served += n
	ran := pace
	if ran < 0 {
		ran = int64(m.Aux) * int64(time.Microsecond)
	}
	p.meanRun.add(ran)
	for range n {
		p.counters.run.Add(time.Duration(ran))
		p.counters.back.Add(time.Duration(now - c.sent - ran))
	}
	c.result = bullpen.Result{Stats: bullpen.Stats{
		Waited: time.Duration(c.sent - c.accepted), Ran: time.Duration(ran), Worker: w.name,
	}}
	if err := c.state.Move(taskSent, taskEnded); err != nil {
		p.logs.fault(err)
		return
	}
	if c.members != nil {
		return // tell ends them
	}
	outcome := bullpen.OK
	switch {
	case m.Kind == protocol.Error:
		outcome = bullpen.Outcome(m.Code)
		if (outcome == bullpen.Canceled || outcome == bullpen.Timeout) && c.cause != nil {
			outcome = reason(c.cause) // like errorOf
			if errors.Is(c.cause, bullpen.ErrClosed) {
				p.counters.aborted.running++
			}
		}
	case c.size(m) > c.output:
		outcome = bullpen.Output
	}
	p.counters.outcomes[outcome]++
}

// takeBack requeues the tasks that the worker returned at the head of the queue, in
// order. Pool.mu is held.
func (p *Pool) takeBack(w *worker, in *answers) {
	for _, c := range slices.Backward(in.returned) {
		c.returns++ // bounds the tries with a worker that returns everything
		p.replay(c)
	}
	if w.paused {
		w.driver.resume()
	}
}

// afterAnswers decides what w does next. Pool.mu is held.
func (p *Pool) afterAnswers(w *worker, now int64) {
	for w.count > 0 && w.flight[int(w.oldest)&(len(w.flight)-1)] == nil {
		w.oldest = protocol.Next(w.oldest)
	}
	if w.count > 0 {
		if c := w.flight[int(w.oldest)&(len(w.flight)-1)]; c.started == 0 {
			c.started = now
			if limit := c.limit(); limit > 0 {
				p.wakeBy(now + int64(limit))
			}
		}
	}
	if !p.config.greets && p.failures > 0 {
		p.startSucceeded()
	}
	p.serve(w, now)
	if w.count == 0 {
		p.emptied(w, now)
	}
	p.madeRoom()
}

// emptied decides what happens to w, which has no tasks left. Pool.mu is held.
func (p *Pool) emptied(w *worker, now int64) {
	switch w.state.State() {
	case WorkerBusy:
		if err := w.state.Move(WorkerBusy, WorkerIdle); err != nil {
			p.logs.fault(err)
			return
		}
		w.idleSince, w.keptAt = now, now
		p.idle = append(p.idle, w)
		p.rested(w, now)
	case WorkerLeaving:
		p.dismiss(w, now)
	default:
	}
}

// tell delivers the outcomes. No other goroutine refers to the calls.
func (in *answers) tell(w *worker) {
	slab := in.slab()
	for i, c := range in.calls {
		m := &in.messages[i]
		in.calls[i] = nil
		if m.Kind == protocol.Returned {
			continue
		}
		switch {
		case c.members != nil:
			w.pool.tellMembers(w, c, m)
		case m.Kind == protocol.Error:
			c.err = w.errorOf(c, m)
		case c.size(m) > c.output:
			c.err = c.failed(w, bullpen.Output, tooLarge(c.size(m), c.output))
		case c.chunks != nil:
			c.result.Payload = c.chunks.rest(m.Body)
		case m.Taken != 0 || len(m.Body) > slabMax:
			c.result.Payload = append(make([]byte, 0, len(m.Body)), m.Body...)
		default:
			n := len(slab)
			slab = append(slab, m.Body...)
			c.result.Payload = slab[n:len(slab):len(slab)]
		}
		if c.err == nil {
			c.result.Meta = m.Meta
		}
		if m.Taken != 0 {
			w.driver.release(m.Taken)
		}
		if c.members == nil {
			w.pool.deliver(c)
		}
	}
}

// size returns the size of the result that m completes.
func (c *call) size(m *wire.Message) int {
	n := max(len(m.Body), m.Size)
	if c.chunks != nil {
		n += c.chunks.size
	}
	return n
}

// slabMax is the largest result that shares an allocation with others.
const slabMax = 4 << 10

// slab allocates memory for all small results of one batch.
func (in *answers) slab() []byte {
	n := 0
	for i := range in.messages {
		if m := &in.messages[i]; m.Kind == protocol.Result && m.Taken == 0 && len(m.Body) <= slabMax {
			n += len(m.Body)
		}
	}
	return make([]byte, 0, n)
}
