package memory

import (
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
	grouped  bool // of the consumer: a message that is handed out has not begun
	deliver  func(engine.Delivery)
	returned func(int)

	wake     chan struct{} // there may be something to do
	quit     chan struct{} // closed when it stops
	stopping atomic.Bool   // like quit, for a fast check
	done     chan struct{} // closed when the goroutine has ended

	wait int // requested with wait and not served; guarded by engine.store.mu
	now  int // requested without wait and not handled; guarded by engine.store.mu

	recalled int // to be counted by returned; guarded by engine.store.mu
}

// delivered is a record that is being delivered.
type delivered struct {
	engine.Delivery

	record  *record
	receipt *receipt
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
	t.engine.store.mu.Lock()
	defer t.engine.store.mu.Unlock()
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
	t.engine.store.mu.Lock()
	defer t.engine.store.mu.Unlock()
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
	t.engine.store.mu.Lock()
	defer t.engine.store.mu.Unlock()
	if t.stopping.Swap(true) {
		return
	}
	t.consumer.takers = slices.DeleteFunc(t.consumer.takers, func(o *taker) bool { return o == t })
	delete(t.engine.takers, t)
	t.wait, t.now = 0, 0
	close(t.quit)
}

// run delivers until t stops. Take starts it; Stop and Close wait for it.
func (t *taker) run() {
	defer t.engine.running.Done()
	defer close(t.done)
	var batch []delivered
	for {
		var back int
		batch, back = t.take(batch[:0])
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
		clear(batch) // so that it does not hold what was delivered
		if len(batch) > 0 || back > 0 {
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
	t.engine.store.mu.Lock()
	defer t.engine.store.mu.Unlock()
	now := time.Now()
	for t.now+t.wait > 0 && len(batch) < most && !t.stopping.Load() && t.engine.store.err == nil {
		r := t.consumer.next(now)
		if r == nil {
			break
		}
		if t.now > 0 {
			t.now--
		} else {
			t.wait--
		}
		batch = append(batch, t.delivery(r))
	}
	if len(batch) < most {
		back, t.now = t.now+t.recalled, 0
		t.recalled = 0
	}
	return batch, back
}

// delivery returns the delivery for r. Store.mu is held.
func (t *taker) delivery(r *record) delivered {
	answer := &receipt{engine: t.engine, record: r, delivery: r.deliveries}
	orphan := r.deliveries > 1 && r.had != nil && r.had != t.engine
	if !t.grouped {
		r.had = t.engine
	}
	return delivered{
		Delivery: engine.Delivery{
			Message: r.message(), Receipt: answer, Deliveries: r.deliveries,
			Waiting: uint64(t.consumer.ready()), Old: r.Seq <= t.engine.opened, Again: r.deliveries > 1,
			Orphan: orphan,
		},
		record: r, receipt: answer,
	}
}

func (t *taker) undo(rest []delivered) {
	t.engine.store.mu.Lock()
	defer t.engine.store.mu.Unlock()
	t.consumer.undo(rest)
}
