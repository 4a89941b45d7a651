package pebble

import (
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// window is how many messages a consumer keeps in memory for takers.
	window = 256
	// windowBytes bounds them too, except for the first one.
	windowBytes = 1 << 20
)

// consumer hands out the jobs of one queue and priority. All its fields are guarded
// by the mutex of the engine.
type consumer struct {
	engine  *Engine
	name    engine.Consumer
	number  numbered  // the name of its count in sums
	fresh   []*record // never handed out, ordered by sequence number; some may be gone
	bytes   int64     // of fresh
	again   []*record // given back, in the order in which they came; some may be gone
	held    int       // taken or delayed, or acknowledged and not yet removed
	paused  bool
	takers  []*taker
	tail    uint64              // the last one read into fresh
	top     uint64              // the highest one that may exist
	oldest  uint64              // no message has a lower number
	loading bool                // a taker reads further messages
	lost    map[uint64]struct{} // removed since loading began
}

// consumer returns the consumer with a name. Engine.mu is held.
func (e *Engine) consumer(name engine.Consumer) *consumer {
	c := e.consumers[name]
	if c == nil {
		c = e.newConsumer(name)
		if c.stored() > 0 {
			c.top = e.sums.streams[engine.Jobs].last
		}
		e.consumers[name] = c
	}
	return c
}

func (e *Engine) newConsumer(name engine.Consumer) *consumer {
	return &consumer{engine: e, name: name, number: numbered{engine.Jobs, "job." + name.Queue + "." + name.Level()}}
}

// stored returns how many messages are stored.
func (c *consumer) stored() int { return int(c.engine.sums.numbers[c.number]) }

// ready returns how many can be handed out.
func (c *consumer) ready() int {
	if c.paused {
		return 0
	}
	return max(c.stored()-c.held, 0)
}

// more reports whether the disk has messages that are not in memory.
func (c *consumer) more() bool { return c.tail < c.top }

// wake wakes all takers that have requests.
func (c *consumer) wake() {
	for _, t := range c.takers {
		if t.wait+t.now > 0 {
			t.look()
		}
	}
}

// arrived adds a job that was just stored.
func (c *consumer) arrived(seq uint64, i *item) {
	whole := !c.more() && !c.loading
	c.top = seq
	if whole && len(c.takers) > 0 && len(c.fresh) < window && (len(c.fresh) == 0 || c.bytes+i.size() <= windowBytes) {
		copied := *i
		copied.data = slices.Clone(i.data)
		c.push(seq, &copied)
	}
	c.wake()
}

// push adds a job to the window.
func (c *consumer) push(seq uint64, i *item) {
	c.tail = seq
	if _, hidden := c.engine.hidden[seq]; hidden || c.engine.records[seq] != nil {
		return
	}
	r := &record{consumer: c, seq: seq, stored: i, subject: i.subject, size: i.size()}
	r.had = seq <= c.engine.opened && c.engine.handouts.had(handout{c.engine.space, seq})
	r.state.Init(&recordStates, waiting)
	c.engine.records[seq] = r
	c.fresh = append(c.fresh, r)
	c.bytes += i.size()
}

// hide stops handing out a job.
func (c *consumer) hide(seq uint64) {
	if c.loading {
		c.lost[seq] = struct{}{}
	}
	if r := c.engine.records[seq]; r != nil && !r.isGone() {
		if _, err := r.state.MoveAny(gone); err == nil {
			c.engine.agenda.drop(r)
		}
	}
}

// ended forgets a job that was removed.
func (c *consumer) ended(seq uint64) {
	if c.loading {
		c.lost[seq] = struct{}{}
	}
	if r := c.engine.records[seq]; r != nil {
		if r.held {
			r.held = false
			c.held--
		}
		delete(c.engine.records, seq)
	}
}

// next hands out one more record, nil if none is in memory.
func (c *consumer) next(now time.Time) *record {
	if c.paused {
		return nil
	}
	for len(c.again) > 0 {
		r := c.again[0]
		c.again[0] = nil
		if c.again = c.again[1:]; r.move(again, taken) {
			return c.hold(r, now)
		}
	}
	for len(c.fresh) > 0 {
		r := c.fresh[0]
		c.fresh[0] = nil
		if c.fresh = c.fresh[1:]; len(c.fresh) == 0 {
			c.bytes = 0
		} else {
			c.bytes -= r.size
		}
		if r.move(waiting, taken) {
			return c.hold(r, now)
		}
	}
	return nil
}

func (c *consumer) hold(r *record, now time.Time) *record {
	r.deliveries++
	r.held = true
	c.held++
	c.engine.at(r, now.Add(c.engine.options.Lease))
	return r
}

// giveBack queues r to be handed out again.
func (c *consumer) giveBack(r *record, from state) {
	if !r.move(from, again) {
		return
	}
	c.release(r)
	c.again = append(c.again, r)
	c.wake()
}

func (c *consumer) release(r *record) {
	c.engine.agenda.drop(r)
	r.held = false
	c.held--
}

// undo reverses the handing out of records that were not delivered.
func (c *consumer) undo(rs []delivered) {
	var back []*record
	for _, d := range rs {
		if d.record.deliveries == d.receipt.delivery && d.record.move(taken, again) {
			c.release(d.record)
			d.record.deliveries--
			back = append(back, d.record)
		}
	}
	c.again = slices.Insert(c.again, 0, back...)
	c.wake()
}

// wantsMore reports whether a taker should read further messages.
func (c *consumer) wantsMore() bool {
	return c.more() && !c.loading && !c.paused && len(c.fresh) < window/4
}

// load reads further messages into the window. One taker does so at a time; the engine is
// not locked.
func (c *consumer) load() error {
	e := c.engine
	e.mu.Lock()
	if !c.wantsMore() {
		e.mu.Unlock()
		return nil
	}
	c.loading, c.lost = true, map[uint64]struct{}{}
	from, top, room := c.tail+1, c.top, window-len(c.fresh)
	e.mu.Unlock()
	found, whole, err := e.readReady(c.name, from, top, room)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range found {
		if _, lost := c.lost[f.seq]; lost {
			c.tail = f.seq
			continue
		}
		c.push(f.seq, f.item)
	}
	if whole && err == nil {
		c.tail = max(c.tail, top)
	}
	c.loading, c.lost = false, nil
	c.wake()
	return err
}

// waitingJob is a job that load has read.
type waitingJob struct {
	seq  uint64
	item *item
}

// readReady reads up to most jobs of a consumer, and reports whether these are all up to
// top.
func (e *Engine) readReady(name engine.Consumer, from, top uint64, most int) (found []waitingJob, whole bool, err error) {
	if err := e.reading(); err != nil {
		return nil, false, err
	}
	defer e.open.RUnlock()
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: e.space.ready(name, from), UpperBound: e.space.ready(name, top+1)})
	if err != nil {
		return nil, false, e.readError(err)
	}
	size := int64(0)
	for iter.First(); iter.Valid() && len(found) < most && size < windowBytes; iter.Next() {
		seq, _ := seqOf(iter.Key())
		i, there, err := readMessage(e.db, e.space.message(engine.Jobs, seq))
		if err != nil {
			iter.Close() //nolint:errcheck // the other error is returned
			return found, false, e.readError(err)
		}
		if !there { // it was removed in between
			continue
		}
		size += i.size()
		found = append(found, waitingJob{seq, &i})
	}
	whole = !iter.Valid()
	return found, whole, e.readError(iter.Close())
}
