package jet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// stopPatience is how long Stop waits for what is on its way.
const stopPatience = 2 * time.Second

// taker implements [engine.Taker] with pull requests of its own.
type taker struct {
	engine   *Engine
	consumer engine.Consumer
	subject  string // to ask by
	deliver  func(engine.Delivery)
	returned func(int)

	mark uint64 // what an earlier process may have had goes up to here
	sure bool   // mark is not too low

	mu       sync.Mutex
	feeds    [2]*feed           // guarded by mu: for requests without and with wait; nil until there is one
	queued   int                // guarded by mu: to be asked for without wait when the request before has ended
	owed     int                // guarded by mu: to be returned at the next tick, so that nobody asks a server without pause that refuses
	stopping bool               // guarded by mu: nothing is asked for any more
	retired  map[*feed]struct{} // guarded by mu: those that are not through

	// calls is held while deliver or returned is called.
	calls   sync.Mutex
	stopped bool   // guarded by calls: neither is called any more
	marked  uint64 // guarded by calls: the highest mark that was written

	once sync.Once
}

// Take implements [engine.Engine]. Neither deliver nor returned may call Stop.
func (e *Engine) Take(c engine.Consumer, deliver func(engine.Delivery), returned func(n int)) (engine.Taker, error) {
	ctx, cancel := context.WithTimeout(e.life, apiPatience)
	defer cancel()
	name, err := e.consumer(ctx, c)
	if err != nil {
		return nil, err
	}
	t := &taker{
		engine:   e,
		consumer: c,
		subject:  "$JS.API.CONSUMER.MSG.NEXT." + e.places[engine.Jobs].name + "." + name,
		deliver:  deliver,
		returned: returned,
		sure:     true,
		retired:  map[*feed]struct{}{},
	}
	if d := e.config.Disk; d != nil {
		t.mark, t.sure = d.Marked(c)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shutting {
		return nil, engine.ErrClosed
	}
	e.takers[t] = struct{}{}
	return t, nil
}

// Request implements [engine.Taker].
func (t *taker) Request(n int, wait bool) {
	if n <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopping:
	case wait:
		t.ask(slow, n)
	default:
		t.queued += n
		t.askQueued()
	}
}

// askQueued sends what waits for the request before it to end. t.mu is held.
func (t *taker) askQueued() {
	if f := t.feeds[quick]; t.queued > 0 && (f == nil || f.open == 0) {
		n := t.queued
		t.queued = 0
		t.ask(quick, n)
	}
}

// ask sends a request. What cannot be sent is returned later. t.mu is held.
func (t *taker) ask(k kind, n int) {
	if !t.engine.connected.Load() {
		t.owed += n
		return
	}
	f := t.feeds[k]
	if f == nil {
		var err error
		if f, err = t.newFeed(k); err != nil {
			t.engine.log.Warn("jet: no subscription for requests", "consumer", consumerName(t.consumer), "error", err)
			t.owed += n
			return
		}
		t.feeds[k] = f
	}
	if err := t.engine.conn.PublishRequest(t.subject, f.reply(n), t.engine.question(k, n)); err != nil {
		t.engine.log.Debug("jet: a request for jobs could not be sent", "error", err)
		t.owed += n
		return
	}
	f.open += n
	f.heard = t.engine.ticks.Load()
}

// delivered takes a delivery that came to f.
func (t *taker) delivered(f *feed, m *nats.Msg) {
	e := t.engine
	h, ok := parseReply(m.Reply)
	if !ok {
		e.log.Error("jet: a delivery whose reply subject cannot be read; it comes again after its lease", "reply", m.Reply)
		return
	}
	t.mu.Lock()
	mine := f.open > 0
	if mine {
		f.open--
		f.heard = e.ticks.Load()
		if f.kind == quick {
			t.askQueued()
		}
	}
	t.mu.Unlock()
	if !mine {
		e.tellBack(m.Reply)
		return
	}
	if h.deliveries > 1 {
		e.back.take(t.consumer, h.seq)
	}
	d := t.delivery(m, h)
	t.calls.Lock()
	defer t.calls.Unlock()
	if t.stopped {
		e.tellBack(m.Reply)
		return
	}
	if disk := e.config.Disk; disk != nil && h.seq > t.marked {
		if err := disk.Mark(t.consumer, h.seq); err != nil {
			e.log.Error("jet: it could not be noted what is handed out; after a crash it may look as if it never was", "error", err)
		}
		t.marked = h.seq
	}
	t.deliver(d)
}

// delivery puts together what is handed out.
func (t *taker) delivery(m *nats.Msg, h handout) engine.Delivery {
	e := t.engine
	size := storedSize(len(m.Subject), headerSize(m.Header), len(m.Data))
	return engine.Delivery{
		Message: engine.Message{
			Stream: engine.Jobs, Subject: m.Subject[min(len(e.prefix), len(m.Subject)):], Data: m.Data,
			Seq: h.seq, Time: time.Unix(0, h.stored).UTC(),
		},
		Receipt:    &receipt{taker: t, reply: m.Reply, seq: h.seq, size: size},
		Deliveries: int(h.deliveries),
		Waiting:    h.waiting,
		Old:        h.seq <= e.old.Load(),
		Again:      h.deliveries > 1 || t.earlier(h.seq),
		Orphan:     t.earlier(h.seq) || e.config.Disk == nil && h.deliveries > 1,
	}
}

// earlier tells whether an earlier process on the same disk may have had seq.
func (t *taker) earlier(seq uint64) bool {
	return seq <= t.mark || !t.sure && seq <= t.engine.lastOpen
}

// headerSize is about what the headers of a message take.
func headerSize(h nats.Header) int {
	n := 0
	for k, v := range h {
		for _, s := range v {
			n += len(k) + len(s) + len(": \r\n")
		}
	}
	if n > 0 {
		n += len("NATS/1.0\r\n\r\n")
	}
	return n
}

// giveBack calls returned.
func (t *taker) giveBack(n int) {
	if n <= 0 {
		return
	}
	t.calls.Lock()
	defer t.calls.Unlock()
	if !t.stopped {
		t.returned(n)
	}
}

// sweep returns what is owed, and begins anew where the server is silent. The
// watcher calls it each tick.
func (t *taker) sweep() {
	e := t.engine
	now := e.ticks.Load()
	t.mu.Lock()
	n, silent := t.owed, false
	t.owed = 0
	if !t.stopping {
		for k, f := range t.feeds {
			if f != nil && f.open > 0 && now-f.heard > e.silence(kind(k)) && e.connected.Load() {
				e.log.Warn("jet: the server is silent about a request for jobs; asking anew", "consumer", consumerName(t.consumer))
				t.retire(f, false)
				silent = true
			}
		}
		t.askQueued()
	}
	t.mu.Unlock()
	if silent {
		e.doubt()
	}
	t.giveBack(n)
}

// reset begins anew after the connection was lost: what the server knew of the
// requests may be gone.
func (t *taker) reset() {
	t.mu.Lock()
	n := t.queued + t.owed
	t.queued, t.owed = 0, 0
	for _, f := range t.feeds {
		t.retire(f, false)
	}
	t.mu.Unlock()
	t.giveBack(n)
}

// Recall implements [engine.Taker].
func (t *taker) Recall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.feeds[slow]; f != nil && f.open > 0 {
		t.retire(f, false)
	}
}

// retire lets go of f, which may be nil. What is on its way is delivered still,
// then the rest is returned: a tick later if that is to be slow. It does not
// wait. t.mu is held.
func (t *taker) retire(f *feed, late bool) {
	if f == nil || f.retired {
		return
	}
	f.retired, f.late = true, late
	t.retired[f] = struct{}{}
	if t.feeds[f.kind] == f {
		t.feeds[f.kind] = nil
	}
	f.drain()
}

// Stop implements [engine.Taker]. What was asked for and did not come is told
// by returned before it returns.
func (t *taker) Stop() {
	t.once.Do(func() {
		t.mu.Lock()
		t.stopping = true
		for _, f := range t.feeds {
			t.retire(f, false)
		}
		feeds := slices.Collect(maps.Keys(t.retired))
		t.mu.Unlock()
		patience := time.NewTimer(stopPatience)
		defer patience.Stop()
		for _, f := range feeds {
			select {
			case <-f.through:
			case <-patience.C:
				patience.Reset(0)
				_ = f.sub.Unsubscribe() // What is still on its way comes again after its lease.
				<-f.through
			}
		}
		t.mu.Lock()
		n := t.queued + t.owed
		t.queued, t.owed = 0, 0
		t.mu.Unlock()
		t.giveBack(n)
		t.calls.Lock()
		t.stopped = true
		t.calls.Unlock()
		e := t.engine
		e.mu.Lock()
		delete(e.takers, t)
		e.mu.Unlock()
	})
}
