package process

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

const (
	inputSize = 64 << 10 // of the buffer for the messages of a worker
	inputKeep = 1 << 20  // a buffer that grew beyond this size is dropped
)

// input decodes the messages of one worker. worker.reading guards it, except the two
// fields of the writer.
type input struct {
	w          *worker
	try        func(fd uintptr) bool // created once, to avoid an allocation per read
	buffer     []byte
	start, end int
	messages   []wire.Message
	calls      []*call
	returned   []*call
	more       bool // more answers are likely to arrive soon
	eof        bool
	fault      error

	outBuffer []byte // kept for the next flush; Pool.mu guards it
	unwritten int    // bytes encoded and not written; Pool.mu guards it
}

func (in *input) init(w *worker) {
	in.w = w
	in.buffer = make([]byte, inputSize)
	in.try = func(fd uintptr) bool {
		// A caller that spins reads instead, and checks turned after unlocking.
		if !w.reading.TryLock() {
			w.turned.Store(true)
			if !w.reading.TryLock() {
				return false
			}
		}
		defer w.reading.Unlock()
		return in.pump(fd)
	}
}

// read decodes the worker's messages until the worker has ended, has closed its end, or
// violates the protocol.
func (w *worker) read() {
	p := w.pool
	for {
		err := w.out.Wait(w.input.try)
		if w.input.over(w) {
			break
		}
		p.mu.Lock()
		late := errors.Is(err, os.ErrDeadlineExceeded) && !w.exited
		if late {
			p.kill(w, BySilence, nil) // its hello did not come in time
		}
		p.mu.Unlock()
		if late {
			_ = w.out.SetDeadline(time.Time{})
			p.mu.Lock()
			late = !w.exited
			p.mu.Unlock()
		}
		if !late {
			// The process has ended, or its pipe was closed: decode what is left.
			_ = w.out.Control(func(fd uintptr) { w.input.try(fd) })
			break
		}
	}
	p.hungUp(w)
}

// over reports whether there is nothing left to decode.
func (in *input) over(w *worker) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	return in.eof || in.fault != nil
}

// pump reads and decodes what is available, and reports whether the input has ended.
func (in *input) pump(fd uintptr) bool {
	for {
		if in.eof || in.fault != nil {
			return true
		}
		free := in.buffer[in.end:]
		n, err := wire.ReadNow(fd, free)
		if errors.Is(err, wire.ErrAgain) {
			return false
		}
		if err != nil {
			in.eof = true
			return true
		}
		in.end += n
		if in.fault = in.decode(); in.fault != nil {
			return true
		}
		if n < len(free) && !(in.more && in.w.pool.spin.linger(fd)) {
			return false // the pipe is empty; new data wakes the reader
		}
	}
}

// decode removes all complete messages from the buffer and handles them.
func (in *input) decode() error {
	w := in.w
	in.messages = in.messages[:0]
	need := 0
	var fault error
	for in.start < in.end {
		m, n, least, err := w.codec.Next(in.buffer[in.start:in.end])
		if err != nil {
			fault = err
			break
		}
		if n == 0 {
			need = least
			break
		}
		in.start += n
		switch m.Kind {
		case protocol.Result, protocol.Error, protocol.Returned:
			if m.Kind == protocol.Error {
				_, fault = protocol.ParseAllPairs(m.Body)
			}
			if fault == nil {
				in.messages = append(in.messages, m)
			}
		default:
			fault = w.pool.told(w, m)
		}
		if fault != nil {
			break
		}
	}
	if len(in.messages) > 0 {
		if err := w.pool.answered(w, in); fault == nil {
			fault = err
		}
	}
	in.makeRoom(need)
	return fault
}

// makeRoom moves the unread bytes to the front and sizes the buffer for the incomplete
// message, which has need bytes.
func (in *input) makeRoom(need int) {
	rest := in.end - in.start
	size := len(in.buffer)
	switch {
	case need > size:
		size = max(need, 2*size)
		if need > inputKeep && in.w.talk != nil {
			size = need // the length of a frame is known
		}
	case rest == 0 && size > inputKeep:
		size = inputSize
	case in.start == 0 || rest == 0:
		in.start, in.end = 0, rest
		return
	}
	from := in.buffer[in.start:in.end]
	if size != len(in.buffer) {
		in.buffer = make([]byte, size)
	}
	copy(in.buffer, from)
	in.start, in.end = 0, rest
}

// answered accounts for the answers in in.messages, gives the worker its next tasks,
// and delivers the outcomes. worker.reading is held.
func (p *Pool) answered(w *worker, in *input) error {
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
		p.flush(w, false)
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
	if w.talk == nil {
		number = w.oldest
	}
	c := w.flight[int(number)&(len(w.flight)-1)]
	if m.Kind == protocol.Returned && w.recalled != 0 && w.owed > 0 && !protocol.Before(number, w.mine) && protocol.Before(number, w.next) {
		w.owed-- // taken back already
		return nil, nil
	}
	if c == nil || c.number != number || protocol.Before(w.sentTo.Load(), number) {
		if w.talk == nil {
			return nil, protocol.Invalidf("the worker wrote an extra line, which answers no task: %.80q", m.Body)
		}
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
	w.pool.inHand--
	if len(c.task.Payload) >= protocol.ArenaMin && w.codec != nil {
		w.codec.Answered(c.number)
	}
}

// account counts an answer and ends the task. Pool.mu is held.
func (p *Pool) account(w *worker, c *call, m *wire.Message, now, pace int64) {
	if m.Kind == protocol.Returned {
		return
	}
	w.served++
	ran := pace
	if ran < 0 {
		ran = int64(m.Aux) * int64(time.Microsecond)
	}
	p.meanRun.add(ran)
	p.tally.run.Add(time.Duration(ran))
	p.tally.back.Add(time.Duration(now - c.sent - ran))
	c.result = bullpen.Result{Stats: bullpen.Stats{
		Waited: time.Duration(c.sent - c.accepted), Ran: time.Duration(ran), Worker: w.name,
	}}
	if err := c.state.Move(taskSent, taskEnded); err != nil {
		p.logs.fault(err)
		return
	}
	outcome := bullpen.OK
	switch {
	case m.Kind == protocol.Error:
		outcome = bullpen.Outcome(m.Code)
		if (outcome == bullpen.Canceled || outcome == bullpen.Timeout) && errors.Is(c.cause, bullpen.ErrClosed) {
			outcome = bullpen.Canceled // like errorOf
			p.tally.aborted.running++
		}
	case len(m.Body) > c.output:
		outcome = bullpen.Output
	}
	p.tally.outcomes[outcome]++
}

// takeBack requeues the tasks that the worker returned at the head of the queue, in
// order. Pool.mu is held.
func (p *Pool) takeBack(w *worker, in *input) {
	for _, c := range slices.Backward(in.returned) {
		c.returns++ // bounds the tries with a worker that returns everything
		p.replay(c)
	}
	p.endRecall(w)
}

// afterAnswers decides what w does next. Pool.mu is held.
func (p *Pool) afterAnswers(w *worker, now int64) {
	for w.count > 0 && w.flight[int(w.oldest)&(len(w.flight)-1)] == nil {
		w.oldest = protocol.Next(w.oldest)
	}
	if w.count > 0 {
		if c := w.flight[int(w.oldest)&(len(w.flight)-1)]; c.started == 0 {
			c.started = now
			if c.timeout > 0 {
				p.wakeBy(now + int64(c.timeout))
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

// tell delivers the outcomes. worker.reading is held; no other goroutine refers to the
// calls.
func (in *input) tell(w *worker) {
	slab := in.slab()
	for i, c := range in.calls {
		m := &in.messages[i]
		in.calls[i] = nil
		if m.Kind == protocol.Returned {
			continue
		}
		switch {
		case m.Kind == protocol.Error:
			c.err = w.errorOf(c, m)
		case len(m.Body) > c.output:
			c.err = c.failed(w, bullpen.Output, tooLarge(len(m.Body), c.output))
		case m.Taken != 0 || len(m.Body) > slabMax:
			c.result.Payload = append(make([]byte, 0, len(m.Body)), m.Body...)
		default:
			n := len(slab)
			slab = append(slab, m.Body...)
			c.result.Payload = slab[n:len(slab):len(slab)]
		}
		w.codec.Release(m.Taken)
		w.pool.deliver(c)
	}
}

// slabMax is the largest result that shares an allocation with others.
const slabMax = 4 << 10

// slab allocates memory for all small results of one batch.
func (in *input) slab() []byte {
	n := 0
	for i := range in.messages {
		if m := &in.messages[i]; m.Kind == protocol.Result && m.Taken == 0 && len(m.Body) <= slabMax {
			n += len(m.Body)
		}
	}
	return make([]byte, 0, n)
}
