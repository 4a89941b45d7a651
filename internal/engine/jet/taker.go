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

// stopPatience is how long Stop waits for messages on their way.
const stopPatience = 2 * time.Second

// taker implements [engine.Taker] with its own pull requests.
type taker struct {
	engine   *Engine
	consumer engine.Consumer
	subject  string // for requests
	deliver  func(engine.Delivery)
	returned func(int)

	mu       sync.Mutex
	feeds    [2]*feed           // guarded by mu: for requests without and with wait; nil until there is one
	queued   int                // guarded by mu: to request without wait when the request before has ended
	owed     int                // guarded by mu: to return at the next tick, so that a server that refuses is not asked without pause
	stopping bool               // guarded by mu: no more requests are made
	retired  map[*feed]struct{} // guarded by mu: those that have not ended

	// calls is held while deliver or returned is called.
	calls   sync.Mutex
	stopped bool // guarded by calls: neither is called again

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
		subject:  "$JS.API.CONSUMER.MSG.NEXT." + e.addresses[engine.Jobs].name + "." + name,
		deliver:  deliver,
		returned: returned,
		retired:  map[*feed]struct{}{},
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
		if n -= t.stands(n); n > 0 {
			t.ask(slow, n)
		}
	default:
		t.queued += n
		t.askQueued()
	}
}

// askQueued sends the request that waited for the one before it to end. t.mu is held.
func (t *taker) askQueued() {
	if f := t.feeds[quick]; t.queued > 0 && (f == nil || f.due == 0) {
		n := t.queued
		t.queued = 0
		t.ask(quick, n)
	}
}

// ask sends a request. If that fails, its places are returned later. t.mu is held.
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
	if err := t.engine.conn.PublishRequest(t.subject, f.reply(n), question(k, n)); err != nil {
		t.engine.log.Debug("jet: a request for jobs could not be sent", "error", err)
		t.owed += n
		return
	}
	f.open += n
	f.due += n
	f.received = t.engine.ticks.Load()
}

// delivered handles a delivery to f.
func (t *taker) delivered(f *feed, m *nats.Msg) {
	e := t.engine
	h, ok := parseReply(m.Reply)
	if !ok {
		e.log.Error("jet: cannot parse the reply subject of a delivery; it is delivered again after its lease", "reply", m.Reply)
		return
	}
	t.mu.Lock()
	mine := t.account(f)
	f.received = e.ticks.Load()
	if f.kind == quick && !t.stopping {
		t.askQueued()
	}
	t.mu.Unlock()
	if !mine {
		t.refuse(m.Reply, h)
		return
	}
	if h.deliveries > 1 {
		e.back.take(t.consumer, h.seq)
	}
	e.noteAnswer(true)
	d := t.delivery(m, h)
	t.calls.Lock()
	defer t.calls.Unlock()
	if t.stopped {
		t.refuse(m.Reply, h)
		return
	}
	t.deliver(d)
}

// refuse gives back a delivery without an open request.
func (t *taker) refuse(reply string, h handout) {
	e := t.engine
	e.back.give(t.consumer, h.seq, 0)
	if !t.orphan(h) {
		e.sayBack(h.seq, h.deliveries, 0)
	}
	e.sendBack(reply)
}

// delivery builds the delivery to hand out.
func (t *taker) delivery(m *nats.Msg, h handout) engine.Delivery {
	e := t.engine
	size := storedSize(len(m.Subject), headerSize(m.Header), len(m.Data))
	return engine.Delivery{
		Message: engine.Message{
			Stream: engine.Jobs, Subject: m.Subject[min(len(e.prefix), len(m.Subject)):], Data: m.Data,
			Seq: h.seq, Time: time.Unix(0, h.stored).UTC(),
		},
		Receipt:    &receipt{taker: t, reply: m.Reply, seq: h.seq, deliveries: h.deliveries, size: size},
		Deliveries: int(h.deliveries),
		Waiting:    h.waiting,
		Old:        h.seq <= e.old.Load(),
		Again:      h.deliveries > 1,
		Orphan:     t.orphan(h),
	}
}

// orphan reports whether another taker may have had a delivery without giving it back.
func (t *taker) orphan(h handout) bool {
	return h.deliveries > 1 && !t.engine.givenBack(h.seq, h.deliveries-1)
}

// headerSize estimates the size of a message's headers.
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

// sweep returns what is owed, and retires a feed whose server is silent. The watcher
// calls it each tick.
func (t *taker) sweep() {
	e := t.engine
	now := e.ticks.Load()
	t.mu.Lock()
	n, silent := t.owed+t.overdue(), false
	t.owed = 0
	if !t.stopping {
		for k, f := range t.feeds {
			if f != nil && f.due > 0 && now-f.received > silence(kind(k)) && e.connected.Load() {
				e.log.Warn("jet: the server does not answer a request for jobs; sending it again", "consumer", consumerName(t.consumer))
				t.retire(f)
				silent = true
			}
		}
		t.askQueued()
	}
	t.mu.Unlock()
	if silent {
		e.noteUseless()
	}
	t.giveBack(n)
}

// reset retires all feeds after the connection was lost: the server may have lost the
// requests.
func (t *taker) reset() {
	t.mu.Lock()
	n := t.queued + t.owed
	t.queued, t.owed = 0, 0
	for _, f := range t.feeds {
		t.retire(f)
	}
	t.mu.Unlock()
	t.giveBack(n)
}

// retire ends the use of f, which may be nil. Messages on their way are still delivered,
// then the rest is returned. It does not wait. t.mu is held.
func (t *taker) retire(f *feed) {
	if f == nil || f.retired {
		return
	}
	f.retired = true
	t.retired[f] = struct{}{}
	if t.feeds[f.kind] == f {
		t.feeds[f.kind] = nil
	}
	f.drain()
}

// Stop implements [engine.Taker]. Requests that were not served are counted by returned
// before Stop returns.
func (t *taker) Stop() {
	t.once.Do(func() {
		feeds, settled, retired := t.stopAsking()
		patience := time.NewTimer(stopPatience)
		defer patience.Stop()
		for _, passed := range settled {
			select {
			case <-passed:
			case <-patience.C:
				patience.Reset(0)
			}
		}
		for _, f := range retired {
			select {
			case <-f.through:
			case <-patience.C:
				patience.Reset(0)
				_ = f.sub.Unsubscribe() // messages still on their way come again after their lease
				<-f.through
			}
		}
		t.mu.Lock()
		n := t.queued + t.owed
		t.queued, t.owed = 0, 0
		for _, f := range feeds {
			n += f.shut(f.open)
		}
		t.mu.Unlock()
		t.giveBack(n)
		t.calls.Lock()
		t.stopped = true
		t.calls.Unlock()
		e := t.engine
		for _, f := range feeds {
			e.leave(f)
		}
		e.mu.Lock()
		delete(e.takers, t)
		e.mu.Unlock()
	})
}

// stopAsking returns the feeds that live on until their requests have expired, channels
// that are closed when these have delivered all that was sent so far, and the feeds that
// end.
func (t *taker) stopAsking() (feeds []*feed, settled []<-chan struct{}, retired []*feed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopping = true
	for _, f := range t.feeds {
		if f == nil {
			continue
		}
		if f.barrier() != nil {
			t.retire(f)
			continue
		}
		f.recalled, f.settled = f.open, make(chan struct{})
		feeds, settled = append(feeds, f), append(settled, f.settled)
	}
	return feeds, settled, slices.Collect(maps.Keys(t.retired))
}
