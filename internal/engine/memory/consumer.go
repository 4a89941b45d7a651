package memory

import (
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// consumer hands out the jobs of one queue and priority. All its fields are guarded by
// the mutex of the store.
type consumer struct {
	space  *space
	fresh  line // never handed out, ordered by sequence number
	again  line // given back, in the order in which they came
	held   int  // taken or delayed
	paused bool
	takers []*taker
}

// ready returns how many can be handed out.
func (c *consumer) ready() int {
	if c.paused {
		return 0
	}
	return c.fresh.live() + c.again.live()
}

// wake wakes all takers that have requests.
func (c *consumer) wake() {
	for _, t := range c.takers {
		if t.wait+t.now > 0 {
			t.look()
		}
	}
}

// next hands out one more record, nil for none.
func (c *consumer) next(now time.Time) *record {
	if c.paused {
		return nil
	}
	r := c.again.pop()
	if r == nil {
		r = c.fresh.pop()
	}
	if r == nil {
		return nil
	}
	if !r.move(again, taken) && !r.move(waiting, taken) {
		return nil // impossible: all records in the two lines have these states
	}
	r.deliveries++
	c.held++
	c.space.at(r, now.Add(c.space.options.Lease))
	return r
}

// giveBack queues r to be handed out again.
func (c *consumer) giveBack(r *record, from state) {
	if !r.move(from, again) {
		return
	}
	c.space.agenda.drop(r)
	c.held--
	c.again.push(r)
	c.wake()
}

// undo reverses the handing out of records that were not delivered.
func (c *consumer) undo(rs []delivered) {
	var back []*record
	for _, d := range rs {
		if d.record.deliveries == d.receipt.delivery && d.record.move(taken, again) {
			c.space.agenda.drop(d.record)
			c.held--
			d.record.deliveries--
			back = append(back, d.record)
		}
	}
	c.again.records = slices.Insert(c.again.records, 0, back...)
	c.wake()
}

func (c *consumer) depth() engine.Depth {
	d := engine.Depth{Waiting: c.fresh.live() + c.again.live(), Taken: c.held, Paused: c.paused}
	var first *record
	older := func(r *record) {
		if r != nil && r.consumer == c && !r.isGone() && (first == nil || r.Seq < first.Seq) {
			first = r
		}
	}
	older(c.fresh.first())
	for _, r := range c.again.records {
		older(r)
	}
	for _, r := range c.space.agenda { // the held ones
		older(r)
	}
	if first != nil {
		d.Oldest = first.Time
	}
	return d
}

// receipt answers one delivery.
type receipt struct {
	engine   *Engine
	record   *record
	delivery int  // the number of its delivery
	answered bool // guarded by engine.store.mu
}

// first reports whether this is the first answer. If so, it leaves the store locked.
func (r *receipt) first(name string) bool {
	f := r.engine.store.fault(Operation{Name: name, Stream: engine.Jobs, Subject: r.record.Subject, Seq: r.record.Seq})
	r.engine.store.mu.Lock()
	if r.answered || r.engine.closed || r.engine.store.err != nil {
		r.engine.store.mu.Unlock()
		return false
	}
	if f.Err != nil {
		r.answered = name != "extend"
		r.engine.store.mu.Unlock()
		return false
	}
	return true
}

// current reports whether the message was not handed out again since.
func (r *receipt) current() bool { return r.record.deliveries == r.delivery }

// Ack ends the message, even if the lease has passed and it was handed out again.
func (r *receipt) Ack() {
	if !r.first("ack") {
		return
	}
	defer r.engine.store.mu.Unlock()
	r.answered = true
	r.engine.space.remove(r.record)
}

// End stores messages one by one, and ends the message.
func (r *receipt) End(puts []engine.Put, done func(error)) {
	engine.EndInSteps(r.engine, r, puts, done)
}

// Nak gives the message back.
func (r *receipt) Nak(delay time.Duration) {
	if !r.first("nak") {
		return
	}
	defer r.engine.store.mu.Unlock()
	r.answered = true
	switch {
	case !r.current():
	case delay <= 0:
		r.record.consumer.giveBack(r.record, taken)
	case r.record.move(taken, delayed):
		r.engine.space.at(r.record, time.Now().Add(delay))
	}
}

// Begin records the engine on which the job begins.
func (r *receipt) Begin() {
	r.engine.store.mu.Lock()
	defer r.engine.store.mu.Unlock()
	if !r.answered && r.current() && r.record.state.State() == taken {
		r.record.had = r.engine
	}
}

// Extend renews the lease.
func (r *receipt) Extend() {
	if !r.first("extend") {
		return
	}
	defer r.engine.store.mu.Unlock()
	if r.current() && r.record.state.State() == taken {
		r.engine.space.at(r.record, time.Now().Add(r.engine.space.options.Lease))
	}
}
