package pebble

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// most is how many records a taker takes at a time.
const most = 64

// taker requests messages from one consumer.
type taker struct {
	engine   *Engine
	consumer *consumer
	deliver  func(engine.Delivery)
	returned func(int)

	wake     chan struct{} // there may be something to do
	quit     chan struct{} // closed when it stops
	stopping atomic.Bool   // like quit, for a fast check
	done     chan struct{} // closed when the goroutine has ended

	wait     int // requested with wait and not served; guarded by engine.mu
	now      int // requested without wait and not handled; guarded by engine.mu
	recalled int // to be counted by returned; guarded by engine.mu
}

// delivered is a record that is being delivered.
type delivered struct {
	engine.Delivery

	record  *record
	receipt *receipt
	patient bool // it was requested with wait
}

// Take starts to take messages of c.
func (e *Engine) Take(c engine.Consumer, deliver func(engine.Delivery), returned func(n int)) (engine.Taker, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	if err := engine.CheckSubject(engine.JobSubject(c, "id")); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, engine.ErrClosed
	}
	t := &taker{
		engine: e, consumer: e.consumer(c), deliver: deliver, returned: returned,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	t.consumer.takers = append(t.consumer.takers, t)
	e.takers[t] = struct{}{}
	e.running.Add(1)
	go t.run() // ends when t stops; Stop and Close wait for it
	return t, nil
}

// look wakes the goroutine of t.
func (t *taker) look() {
	select {
	case t.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Request asks for up to n more messages.
func (t *taker) Request(n int, wait bool) {
	if n <= 0 {
		return
	}
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	if wait {
		t.wait += n
	} else {
		t.now += n
	}
	if !wait || t.consumer.ready() > 0 {
		t.look()
	}
}

// Recall takes back the requests that wait.
func (t *taker) Recall() {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	t.recalled += t.wait
	t.wait = 0
	t.look()
}

// Stop takes back all requests.
func (t *taker) Stop() {
	t.stop()
	<-t.done
}

// stop makes the goroutine of t end, without waiting for it.
func (t *taker) stop() {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	if t.stopping.Swap(true) {
		return
	}
	t.consumer.takers = slices.DeleteFunc(t.consumer.takers, func(o *taker) bool { return o == t })
	delete(t.engine.takers, t)
	t.wait, t.now = 0, 0
	close(t.quit)
}

// wakeAll wakes all takers.
func (e *Engine) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.takers {
		t.look()
	}
}

// run delivers until t stops.
func (t *taker) run() {
	defer t.engine.running.Done()
	defer close(t.done)
	var batch []delivered
	for {
		var back int
		batch, back = t.take(batch[:0])
		batch = t.prepare(batch)
		for i := range batch {
			if t.stopping.Load() {
				t.undo(batch[i:])
				return
			}
			t.deliver(batch[i].Delivery)
		}
		if back > 0 && !t.stopping.Load() {
			t.returned(back)
		}
		some := len(batch) > 0 || back > 0
		clear(batch) // so that it does not hold what was delivered
		if some {
			continue
		}
		select {
		case <-t.wake:
		case <-t.quit:
			return
		}
	}
}

// take takes requested messages that are available. It returns how many requests without
// wait could not be served.
func (t *taker) take(batch []delivered) (_ []delivered, back int) {
	e := t.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for now := time.Now(); t.now+t.wait > 0 && len(batch) < most && !t.stopping.Load() && e.Err() == nil; {
		if len(batch) == 0 && t.consumer.wantsMore() {
			e.mu.Unlock()
			err := t.consumer.load()
			e.mu.Lock()
			if err != nil {
				break
			}
			continue // it was paused, stopped or recalled in between
		}
		r := t.consumer.next(now)
		if r == nil {
			if len(batch) == 0 && t.consumer.wantsMore() {
				continue // all in memory are gone
			}
			break
		}
		patient := t.now == 0
		if patient {
			t.wait--
		} else {
			t.now--
		}
		batch = append(batch, t.delivery(r))
		batch[len(batch)-1].patient = patient
	}
	back, t.recalled = t.recalled, 0
	if len(batch) < most && (!t.consumer.more() || t.consumer.paused || e.Err() != nil) {
		back, t.now = back+t.now, 0
	}
	return batch, back
}

// delivery describes r to its receiver. Engine.mu is held.
func (t *taker) delivery(r *record) delivered {
	e := t.engine
	d := delivered{record: r, receipt: &receipt{engine: e, record: r, delivery: r.deliveries}}
	d.Delivery = engine.Delivery{
		Receipt: d.receipt, Deliveries: r.deliveries, Waiting: uint64(t.consumer.ready()),
		Old: r.seq <= e.opened, Again: r.deliveries > 1 || r.had,
		Orphan: r.had && (r.deliveries == 1 || t.consumer.name.Grouped),
	}
	if r.stored != nil {
		d.Message = r.stored.message(engine.Jobs, r.seq)
		r.stored = nil // the receiver owns what was delivered
	}
	return d
}

// prepare reads what is not in memory, and records what is handed out. Messages that are
// gone are left out; their requests stay open.
func (t *taker) prepare(batch []delivered) []delivered {
	kept := batch[:0]
	for _, d := range batch {
		found, err := d.Seq > 0, error(nil)
		if !found {
			found, err = t.read(&d)
		}
		if err == nil && found && !t.consumer.name.Grouped {
			if err = t.engine.handouts.take(handout{t.engine.space, d.Seq}); err != nil {
				t.engine.fail(fmt.Errorf("recording the delivery of a job: %w", err))
			}
		}
		if err != nil || !found {
			t.unask(d)
			continue
		}
		kept = append(kept, d)
	}
	clear(batch[len(kept):])
	if len(kept) > 0 && !t.consumer.name.Grouped {
		t.engine.nudge() // the notes reach the disk later
	}
	return kept
}

// read reads a job that is handed out again.
func (t *taker) read(d *delivered) (bool, error) {
	e := t.engine
	if err := e.reading(); err != nil {
		return false, err
	}
	defer e.open.RUnlock()
	i, found, err := readMessage(e.db, e.space.message(engine.Jobs, d.record.seq))
	if found {
		d.Message = i.message(engine.Jobs, d.record.seq)
	}
	return found, e.readError(err)
}

// unask reopens a request whose message is gone.
func (t *taker) unask(d delivered) {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	t.consumer.undo([]delivered{d})
	if t.stopping.Load() {
		return
	}
	if d.patient {
		t.wait++
	} else {
		t.now++
	}
	t.look()
}

// undo reverses the handing out of what was not delivered.
func (t *taker) undo(rest []delivered) {
	e := t.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range rest {
		if !d.record.had && !t.consumer.name.Grouped {
			e.handBack(d.record)
		}
	}
	t.consumer.undo(rest)
}
