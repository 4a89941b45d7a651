package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/internal/wire/shapes"
	"github.com/bullpen-run/bullpen/protocol"
)

// members are the tasks of a shared call. The call itself is a call too, for the workers and
// their drivers; it takes no part in counts of tasks, and its end is that of its members.
// Pool.mu guards it while the call is assigned to a worker; then the goroutine that ends the
// call has it.
type members struct {
	calls    []*call // in the order of the input; nil for one that has ended before the others
	left     int     // those that have not ended
	known    []string
	shortest time.Duration // of the time limits, 0 for none
}

// largestInput bounds the input of a call with several tasks, as AWS bounds events.
const largestInput = 6 << 20

// listMeta is what workers are told of an input.
var listMeta = map[string]string{"content-type": "application/json"}

// tasks returns how many tasks c stands for that have not ended. Pool.mu is held.
func (c *call) tasks() int {
	if c.members == nil {
		return 1
	}
	return c.members.left
}

// limit returns the shortest of the time limits of c and its members, 0 for none.
func (c *call) limit() time.Duration {
	if c.members == nil {
		return c.timeout
	}
	return c.members.shortest
}

// itemize makes the part of c in the input of a shared call.
func (p *Pool) itemize(c *call) error {
	item, err := p.config.shape.Item(shapes.Task{Payload: c.task.Payload, Meta: c.task.Meta, Attempt: c.task.Meta[metaAttempt]})
	if err != nil {
		return fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
	}
	c.item = item
	return nil
}

// metaAttempt is the number of the attempt, if package queue has set it.
const metaAttempt = "bullpen.attempt"

// due reports whether the first of the tasks that wait can go to a worker: always, unless it
// waits for others to share its call. Pool.mu is held.
func (p *Pool) due(now int64) bool {
	if p.queue.n == 0 || p.config.Batch.Max == 0 {
		return p.queue.n > 0
	}
	return now >= p.waitsSince() || p.full() || p.state.State() != Open
}

// waitsSince returns when the first of the tasks that wait began, or begins, to wait for a
// worker only. Pool.mu is held.
func (p *Pool) waitsSince() int64 {
	c := p.queue.first
	if p.queue.n >= p.config.Batch.Max || c.alone() {
		return c.accepted
	}
	return c.accepted + int64(p.config.Batch.Wait)
}

// callsWaiting returns how many calls the tasks that wait need at least. Pool.mu is held.
func (p *Pool) callsWaiting() int {
	each := p.config.each()
	return (p.queue.n + each - 1) / each
}

// serveDue gives tasks that are due to a worker. It returns the worker if the caller must
// send to it. Pool.mu is held.
func (p *Pool) serveDue(now int64) *worker {
	if !p.due(now) {
		return nil
	}
	w := p.pick(p.queue.first.alone())
	if w == nil {
		return nil
	}
	p.serve(w, now)
	if p.claim(w) {
		return w
	}
	return nil
}

// gather makes a shared call of c, which has just left the queue, and of others that wait.
// Without Config.Batch it returns c. Pool.mu is held.
func (p *Pool) gather(c *call) *call {
	if p.config.Batch.Max == 0 {
		return c
	}
	limit := largestInput
	if p.hello != nil {
		limit = min(limit, int(p.hello.MaxFrame)-protocol.PageSize)
	}
	m := &members{calls: []*call{c}}
	size := shapes.Size(c.item, c.task.ID)
	for next := p.queue.first; next != nil && !c.alone() && len(m.calls) < p.config.Batch.Max; {
		other := next
		next = next.next
		if other.alone() || other.task.Name != c.task.Name {
			continue
		}
		if size += shapes.Size(other.item, other.task.ID); size > limit {
			break
		}
		p.queue.remove(other)
		m.calls = append(m.calls, other)
	}
	return p.join(m)
}

// join makes the call of m.
func (p *Pool) join(m *members) *call {
	first := m.calls[0]
	s := &call{
		members: m, timeout: first.timeout, output: p.config.Limits.Output, memory: first.memory, cpu: first.cpu,
		deaths: first.deaths, accepted: first.accepted, redelivered: first.alone(), // only if it is the only one
	}
	s.state.Init(&taskStates, taskWaiting)
	m.left = len(m.calls)
	items, ids := make([][]byte, m.left), make([]string, m.left)
	for i, c := range m.calls {
		items[i], ids[i] = c.item, c.task.ID
		if s.timeout > 0 {
			s.timeout = max(s.timeout, c.timeout)
		}
		if c.timeout == 0 {
			s.timeout = 0 // for good
		}
		if c.timeout > 0 && (m.shortest == 0 || c.timeout < m.shortest) {
			m.shortest = c.timeout
		}
	}
	s.task = bullpen.Task{Name: first.task.Name, Meta: listMeta}
	if m.left == 1 {
		s.task.ID = first.task.ID
	}
	s.task.Payload, m.known = p.config.shape.Join(items, ids)
	return s
}

// sendMembers accounts for the members of c, which was just assigned to w. Pool.mu is held.
func (p *Pool) sendMembers(w *worker, c *call, now int64) {
	for _, m := range c.members.calls {
		if err := m.state.Move(taskWaiting, taskSent); err != nil {
			p.logs.fault(err)
		}
		m.worker, m.sent = w, now
		p.counters.queue.Add(time.Duration(now - m.accepted))
	}
	w.more += c.members.left - 1
	p.inHand += c.members.left - 1
}

// tendMembers ends the members of c that exceeded their time limit or were canceled. If all
// did, c itself must end. Pool.mu is held.
func (p *Pool) tendMembers(w *worker, c *call, now int64) {
	var over []*call
	for _, m := range c.members.calls {
		if m == nil {
			continue
		}
		if m.timeout > 0 && c.started > 0 && m.cause == nil {
			if due := c.started + int64(m.timeout); now >= due {
				m.cause = errRunTime
			} else {
				p.wakeBy(due)
			}
		}
		if m.cause != nil {
			over = append(over, m)
		}
	}
	switch {
	case len(over) == 0:
	case len(over) == c.members.left:
		c.cause = over[0].cause
	case !w.began(c):
		w.driver.takeBack(c.number, now)
		p.wakeBy(now + int64(growWait)) // it comes back, or begins
	default:
		for _, m := range over {
			p.endMember(w, c, m)
		}
	}
}

// endMember ends m, which was sent with c, before the others. Pool.mu is held.
func (p *Pool) endMember(w *worker, c, m *call) {
	c.members.calls[slices.Index(c.members.calls, m)] = nil
	c.members.left--
	w.more--
	p.inHand--
	r := bullpen.Result{Stats: w.statsOf(c)}
	r.Stats.Waited = time.Duration(c.sent - m.accepted)
	if p.end(m, r, m.failed(w, reason(m.cause), m.cause)) {
		p.tasks.Go(func() { p.deliver(m) }) // ends when the outcome is delivered
	}
}

// endAll ends c, or its members, and returns the tasks that the caller must deliver after
// unlocking Pool.mu, which is held.
func (p *Pool) endAll(c *call, r bullpen.Result, err error) (ended []*call) {
	if c.members == nil {
		if p.end(c, r, err) {
			ended = append(ended, c)
		}
		return ended
	}
	for _, m := range c.members.calls {
		if m == nil {
			continue
		}
		m.deaths = c.deaths
		own := r
		if c.sent > 0 {
			own.Stats.Waited = time.Duration(c.sent - m.accepted)
		}
		if p.end(m, own, c.errorFor(m, err)) {
			ended = append(ended, m)
		}
	}
	return ended
}

// errorFor returns err, with which c ends, as that of its member m.
func (c *call) errorFor(m *call, err error) error {
	te, ok := err.(*bullpen.TaskError) //nolint:errorlint // it is not wrapped
	if !ok {
		return err
	}
	own := *te
	own.Task, own.ID = m.task.Name, m.task.ID
	if m.cause != nil && (own.Outcome == bullpen.Timeout || own.Outcome == bullpen.Canceled) {
		own.Outcome, own.Err = reason(m.cause), m.cause
	}
	if n := len(c.members.calls); n > 1 && own.Message == "" && (own.Outcome == bullpen.Crashed || own.Outcome == bullpen.Memory) {
		own.Message = fmt.Sprintf("it shared a call with %d other tasks", n-1)
	}
	return &own
}

// dissolve puts the members of c, which was not started, back to the head of the queue.
// Pool.mu is held.
func (p *Pool) dissolve(c *call) {
	for _, m := range slices.Backward(c.members.calls) {
		if m == nil {
			continue
		}
		m.returns += c.returns
		m.replays += c.replays
		m.recalls += c.recalls
		m.deaths = c.deaths
		p.replay(m)
	}
}

// tellMembers splits the answer m of c, which is no longer assigned, and delivers the
// outcomes.
func (p *Pool) tellMembers(w *worker, c *call, m *wire.Message) {
	var replies []shapes.Reply
	var malformed error
	size := c.size(m)
	if m.Kind != protocol.Error && size <= c.output {
		body := m.Body
		if c.chunks != nil {
			body = c.chunks.rest(body)
		}
		replies, malformed = p.config.shape.Split(body, c.members.known)
	}
	ended := make([]*call, 0, c.members.left)
	p.mu.Lock()
	for i, one := range c.members.calls {
		if one == nil {
			continue
		}
		if one.cause == nil {
			one.cause = c.cause
		}
		one.deaths = 0 // this worker has answered
		r := bullpen.Result{Stats: c.result.Stats}
		r.Stats.Waited = time.Duration(c.sent - one.accepted)
		var err error
		switch {
		case m.Kind == protocol.Error:
			err = w.errorOf(one, m)
		case size > c.output:
			err = one.failed(w, bullpen.Output, tooLarge(size, c.output))
		case malformed != nil:
			err = w.failureOf(one, shapes.Reply{Failure: &wire.Failure{Message: malformed.Error()}})
		case replies[i].Failure != nil:
			err = w.failureOf(one, replies[i])
		case len(replies[i].Result) > one.output:
			err = one.failed(w, bullpen.Output, tooLarge(len(replies[i].Result), one.output))
		default:
			r.Payload = replies[i].Result
		}
		if p.end(one, r, err) {
			ended = append(ended, one)
		}
	}
	p.mu.Unlock()
	for _, one := range ended {
		p.deliver(one)
	}
}

// failureOf returns the error of c, which has failed alone in its shared call.
func (w *worker) failureOf(c *call, r shapes.Reply) error {
	te := c.failed(w, bullpen.Failed, nil)
	te.Type, te.Message, te.Stack, te.Retryable = r.Failure.Type, r.Failure.Message, r.Failure.Stack, !r.Final
	return te
}
